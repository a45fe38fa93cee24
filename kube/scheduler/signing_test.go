package scheduler

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/kube/api"
)

// keyFiles writes a new key and its public key.
func keyFiles(t *testing.T) (private, public string) {
	t.Helper()
	publicKey, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		t.Fatal(err)
	}
	private, public = filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "pub")
	for path, block := range map[string]*pem.Block{private: {Type: "PRIVATE KEY", Bytes: der}, public: {Type: "PUBLIC KEY", Bytes: publicDER}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return private, public
}

// play runs commands and returns all changes.
func (s *scenario) play(commands ...string) (changes []string) {
	for _, command := range commands {
		s.run(strings.Fields(command))
		s.awaitIdle()
		changes = append(changes, s.changes()...)
	}
	return changes
}

const forgedAllocation = `{"version":1,"node":"n1","policy":"static","containers":[{"name":"app","cpus":"0-3","numaNodes":[0]}]}`

// With a key, an unsigned allocation on a pod that was not bound by the scheduler claims no CPUs.
func TestForgedAllocationClaimsNothing(t *testing.T) {
	key, _ := keyFiles(t)
	s := &scenario{fakeCluster: newFakeCluster(t, DefaultConfiguration+"      signingKey: "+key+"\n"), seen: map[string]string{}}
	s.play("node n1 cores=8", "pod innocent cpus=2")
	innocent := s.pods()[0]
	forged := s.podOf("forged", []string{"cpus=4", "bound=n1", "cpu-allocation=" + forgedAllocation})
	forged.UID, forged.Status.Conditions = "a", innocent.Status.Conditions // bound in the same second, with the lower UID
	s.must(s.client.Tracker().Add(forged))
	s.awaitIdle()
	if events := s.changes(); !slices.ContainsFunc(events, func(line string) bool {
		return strings.HasPrefix(line, "event on forged: CPUAllocationInvalid:") && strings.Contains(line, "it has no signature")
	}) {
		t.Errorf("changes %q, want an event about the forged pod", events)
	}
	// 6 are left for exclusive use, less 4 for what the forged pod requests of the shared ones.
	want := []string{"next on n1: static 2-3 of NUMA [0]"}
	if diff := cmp.Diff(want, s.play("pod next cpus=2")); diff != "" {
		t.Error(diff)
	}
}

// A pod whose allocation is removed and later restored does not get its CPUs back from another pod.
func TestRestoredAllocationClaimsNothing(t *testing.T) {
	key, _ := keyFiles(t)
	s := &scenario{fakeCluster: newFakeCluster(t, DefaultConfiguration+"      signingKey: "+key+"\n"), seen: map[string]string{}}
	s.play("node n1 cores=4", "pod first request=100m limit=3 cpuset-scheduler=true")
	allocation := s.pods()[0].Annotations[api.AllocationAnnotation]
	s.play("edit first cpu-allocation-", "pod second request=100m limit=3 cpuset-scheduler=true")
	events := s.play("edit first cpu-allocation=" + allocation)
	if !slices.ContainsFunc(events, func(line string) bool { return strings.HasPrefix(line, "event on first: CPUConflict:") }) ||
		slices.ContainsFunc(events, func(line string) bool { return strings.HasPrefix(line, "event on second") }) {
		t.Errorf("changes %q, want an event that first loses its CPUs", events)
	}
}

// A forged allocation on a pod that does not ask is overwritten when the pod is bound.
func TestForgedAllocationIsOverwritten(t *testing.T) {
	s := &scenario{fakeCluster: newFakeCluster(t, DefaultConfiguration), seen: map[string]string{}}
	s.play("node n1 cores=4", "pod plain request=1 cpu-allocation="+forgedAllocation)
	if got := s.pods()[0].Annotations[api.AllocationAnnotation]; got != "" {
		t.Errorf("the bound pod has the allocation %s", got)
	}
	s.play("edit plain cpuset-scheduler=true")
	if _, err := api.AllocationOf(&s.pods()[0]); err == nil {
		t.Error("the pod has an allocation when it begins to ask")
	}
}

// Key files are read when the scheduler starts, and errors name them.
func TestSigningFiles(t *testing.T) {
	key, public := keyFiles(t)
	for _, test := range []struct {
		args Args
		err  string
	}{
		{Args{}, ""},
		{Args{SigningKey: key}, ""},
		{Args{SigningKey: key, VerifyKeys: public}, ""},
		{Args{VerifyKeys: public}, "verifyKeys without signingKey"},
		{Args{SigningKey: "/no/such/file"}, "signingKey /no/such/file: open"},
		{Args{SigningKey: public}, "signingKey " + public + ": it holds no private key"},
		{Args{SigningKey: key, VerifyKeys: key}, "verifyKeys " + key + ": it holds a \"PRIVATE KEY\""},
	} {
		s, err := newSigning(t.Context(), test.args)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%+v: %v, want %s", test.args, err, test.err)
			}
			continue
		}
		if err != nil || (s.keys == nil) != (test.args.SigningKey == "") {
			t.Errorf("%+v: %v, %v", test.args, s, err)
		}
		if err := s.agrees(Args{SigningKey: "other"}); err == nil {
			t.Errorf("%+v: another profile with another key was accepted", test.args)
		}
	}
}

// Decision times increase even if the clock is behind another replica's.
func TestDecisionTimesIncrease(t *testing.T) {
	s := &signing{}
	last := s.now()
	s.saw(-last.Add(1e12).UnixNano()) // a replica whose clock is ahead
	for range 1000 {
		next := s.now()
		if !next.After(last) {
			t.Fatalf("%v is not after %v", next, last)
		}
		last = next
	}
}
