//go:build linux

package groups

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/report"
)

// TestTargets: patterns and pods leave out sandboxes, unless these are wanted or named by their path.
func TestTargets(t *testing.T) {
	root, app, pause, db, long := t.TempDir(), strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64), strings.Repeat("d", 64)
	name := strings.Repeat("n", 200) // for which the kubelet cuts the name of the link
	files := map[string]string{
		"proc/self/mountinfo":                             "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"sys/fs/cgroup/cgroup.controllers":                "cpuset cpu\n",
		"sys/fs/cgroup/cgroup.procs":                      "",
		"var/log/containers/web_shop_app-" + app + ".log": "",
		"var/log/pods/shop_web_u1/app/0.log":              "",
		"var/log/containers/db_shop_app-" + db + ".log":   "", // whose logs are elsewhere
	}
	for _, group := range []string{"kubepods/podu1/" + app, "kubepods/podu1/" + pause, "kubepods/podu2/" + pause, "kubepods/podu3/" + db,
		"kubepods/podu4/" + long, `kubepods/a\x2db.slice/c[1].scope`, "kubepods/\xff d", "user.slice/s1/pinfold-run-web", "user.slice/s1/pinfold-run-twice", "user.slice/s2/pinfold-run-twice"} {
		files["sys/fs/cgroup/"+group+"/cgroup.controllers"] = "cpu\n"
		files["sys/fs/cgroup/"+group+"/cpu.stat"] = "usage_usec 1\n"
		files["sys/fs/cgroup/"+group+"/cpu.max"] = "max 100000\n"
	}
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := fmt.Sprintf("%s_shop_app-%s.log", name, long)
	if err := os.Symlink("/elsewhere/shop_"+name+"_u4/app/0.log", filepath.Join(root, "var/log/containers", link[:251]+".log")); err != nil {
		t.Fatal(err)
	}
	fs, err := cgroup.OpenUsage(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		options Options
		args    string
		want    []string
	}{
		{Options{}, "/kubepods/podu1/*", []string{"podu1/" + app}},
		{Options{}, "/kubepods/podu1/b*", nil},
		{Options{}, "/kubepods/podu2/*", []string{"podu2/" + pause}}, // which has no container with a name
		{Options{}, "/kubepods/podu1/" + pause, []string{"podu1/" + pause}},
		{Options{Sandboxes: true}, "/kubepods/podu1/*", []string{"podu1/" + app, "podu1/" + pause}},
		{Options{Pods: []string{"shop/web"}}, "", []string{"podu1/" + app}},
		{Options{Pods: []string{"shop/db"}}, "", []string{"podu3/" + db}},
		{Options{Pods: []string{"shop/d"}}, "", nil},
		{Options{Pods: []string{"shop/anything/u3"}}, "", []string{"podu3/" + db}}, // the remedy of the message above
		{Options{Pods: []string{"shop/" + name}}, "", []string{"podu4/" + long}},
		{Options{}, `/kubepods/a\x2db.slice/*`, []string{`a\x2db.slice/c[1].scope`}},
		{Options{}, `/kubepods/a\x2d*/c\[?\].scope`, []string{`a\x2db.slice/c[1].scope`}},
		{Options{}, report.Printable("/kubepods/\xff") + "?d", []string{"\xff d"}},
		{Options{}, `/kubepods/a\x2dc.slice`, nil},
		{Options{}, "/pinfold-run-web", []string{"/user.slice/s1/pinfold-run-web"}}, // of a shell in a group of its own
		{Options{}, "/pinfold-run-twice", nil},
		{Options{}, "/pinfold-run-other", nil},
		{Options{Pods: []string{"shop/web"}, Sandboxes: true}, "", []string{"podu1/" + app, "podu1/" + pause}},
	} {
		test.options.Root = root
		found, _, err := test.options.Targets(fs, strings.Fields(test.args), io.Discard)
		var got []string
		for _, target := range found {
			got = append(got, strings.TrimPrefix(target.Group, "/kubepods/"))
			if named := target.Name == "shop/web/app"; target.Group != "/kubepods/podu4/"+long && named != strings.HasSuffix(target.Group, app) {
				t.Errorf("%+v", target)
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != (test.want != nil) {
			t.Errorf("%+v: %v; -want +got:\n%s", test, err, diff)
		}
	}
}

// TestYields: what is idle in a group runs behind what is in the same group, or below.
func TestYields(t *testing.T) {
	const pod, other = "/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-a.scope", "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod11111111_2222_3333_4444_666666666666.slice"
	names := Names{naming: kubepods.Naming{Driver: kubepods.Systemd}}
	for _, test := range []struct {
		group, to string
		want      bool
	}{
		{other, pod, true},
		{other, "/system.slice/web.service", false},
		{"/pinfold-run-batch/command", "/pinfold-run-web", true},
		{"/pinfold-run-batch/command", pod, true},
		{"/user.slice/pinfold-run-batch/command", pod, false},
		{"/system.slice/build.service", "/system.slice/web.service/worker", true},
		{"/system.slice/build.service", pod, false},
		{"/system.slice/build.service", "/system.slices/web.service", false},
	} {
		if got := names.Yields(test.group, test.to); got != test.want {
			t.Errorf("%s, to %s: %t", test.group, test.to, got)
		}
	}
}
