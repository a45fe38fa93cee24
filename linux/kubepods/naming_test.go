package kubepods

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/linux/cgroup"
)

const testID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestNamingPaths(t *testing.T) {
	const uid = "1234-abcd"
	for want, got := range map[string]string{
		"/kubepods":                                   Naming{Cgroupfs, ""}.Tier(qos.Guaranteed),
		"/kubepods/besteffort/pod1234-abcd":           Naming{Cgroupfs, "/"}.Pod(qos.BestEffort, uid),
		"/kubelet/kubepods/pod1234-abcd/ID":           Naming{Cgroupfs, "/kubelet"}.Container(qos.Guaranteed, uid, "", "ID"),
		"/kubepods.slice":                             Naming{Systemd, ""}.Tier(qos.Guaranteed),
		"/kubepods.slice/kubepods-pod1234_abcd.slice": Naming{Systemd, ""}.Pod(qos.Guaranteed, uid),
		"/kubepods/pod1/ID":                           Naming{Cgroupfs, ""}.StatusContainer(qos.Guaranteed, "1", "containerd://ID"),
		"/kubepods/pod1/crio-ID":                      Naming{Cgroupfs, ""}.StatusContainer(qos.Guaranteed, "1", "cri-o://ID"),
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-ID.scope": Naming{Systemd, ""}.StatusContainer(qos.Guaranteed, "1", "containerd://ID"),
		"/kubepods.slice/kubepods-pod1.slice/crio-ID.scope":           Naming{Systemd, ""}.StatusContainer(qos.Guaranteed, "1", "cri-o://ID"),
		"": Naming{Systemd, ""}.StatusContainer(qos.Guaranteed, "1", ""),
		"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice":                       Naming{Systemd, "/kubelet"}.Tier(qos.Burstable),
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd.slice/crio-ID.scope": Naming{Systemd, ""}.Container(qos.Burstable, uid, "crio", "ID"),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestParseDriver(t *testing.T) {
	for _, d := range Drivers() {
		if got, err := ParseDriver(d.String()); err != nil || got != d {
			t.Errorf("%v is parsed as %v, %v", d, got, err)
		}
	}
	if got, err := ParseDriver("Systemd"); err == nil {
		t.Errorf("Systemd is parsed as %v", got)
	}
}

// TestNamingParseRefuses: other groups have no place.
func TestNamingParseRefuses(t *testing.T) {
	const slice = "/kubepods.slice/kubepods-burstable.slice/"
	for path, driver := range map[string]Driver{
		"/kubepods/pod1/crio-conmon-" + testID: Cgroupfs, "/kubepods/pod1/" + testID + "/init.scope": Cgroupfs, "/kubepods/pod1/" + testID[1:]: Cgroupfs,
		"/kubepods/pod": Cgroupfs, "/system.slice": Cgroupfs, "/kubepodsx/pod1": Cgroupfs,
		slice + "kubepods-burstable-pod1_2.slice/cri-containerd-" + testID: Systemd, slice + "kubepods-pod1_2.slice": Systemd,
	} {
		if got, ok := (Naming{Driver: driver}).Parse(path); ok {
			t.Errorf("%v %s: %+v", driver, path, got)
		}
	}
}

// TestNamingRoundTrip builds paths and reads them back.
func TestNamingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := Naming{rapid.SampledFrom([]Driver{Cgroupfs, Systemd}).Draw(t, "driver"), rapid.SampledFrom([]string{"", "/", "/kubelet", "a/b-c"}).Draw(t, "root")}
		want := Place{Tier: rapid.SampledFrom(qos.Tiers()).Draw(t, "tier"),
			PodUID:    rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}|[0-9a-f]{32}`).Draw(t, "UID"),
			Runtime:   rapid.SampledFrom([]string{"cri-containerd", "crio", "docker", ""}).Draw(t, "runtime"),
			Container: rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "id")}
		got, ok := n.Parse(n.Container(want.Tier, want.PodUID, want.Runtime, want.Container))
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Fatalf("%v -want +got:\n%s", ok, diff)
		}
		pod, ok := n.Parse(n.Pod(want.Tier, want.PodUID))
		if !ok || pod != (Place{Tier: want.Tier, PodUID: want.PodUID}) {
			t.Fatalf("pod: %+v, %v", pod, ok)
		}
		if tier, ok := n.Parse(n.Tier(want.Tier)); !ok || tier != (Place{Tier: want.Tier}) {
			t.Fatalf("tier: %+v, %v", tier, ok)
		}
	})
}

func TestPodWeight(t *testing.T) {
	for _, c := range []struct {
		shares uint64
		v1, v2 cgroup.Weight
	}{{0, 2, 1}, {2, 2, 1}, {102, 102, 4}, {1024, 1024, 39}, {2048, 2048, 79}, {262144, 262144, 10000}, {1 << 40, 262144, 10000}} {
		if v1, v2 := PodWeight(cgroup.V1, c.shares), PodWeight(cgroup.V2, c.shares); v1 != c.v1 || v2 != c.v2 {
			t.Errorf("%d shares: %d on version 1 and %d on version 2, want %d and %d", c.shares, v1, v2, c.v1, c.v2)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"/kubepods/burstable/pod1/" + testID, "kubepods.slice/kubepods-pod1_2.slice", "-1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for driver := range 3 {
			if p, ok := (Naming{Driver: Driver(driver)}).Parse(text); ok && p.Container != "" && p.PodUID == "" {
				t.Errorf("%q: a container without a pod: %+v", text, p)
			}
		}
	})
}
