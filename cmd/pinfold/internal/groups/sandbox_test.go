package groups

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSandboxes(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	names := map[string]string{
		"/kubepods/pod1/" + a:                                             "shop/web/app",
		"/kubepods/pod1/" + b:                                             "", // a sandbox
		"/kubepods/pod2/" + b:                                             "", // without links
		"/kubepods/burstable/pod3/" + a:                                   "shop/db/app",
		"/kubepods/burstable/pod3/" + b:                                   "shop/db/bbbbbbbbbbbb", // in a recording of --pod
		"/kubepods/burstable/pod3/" + a + "/" + b:                         "",                     // a container in a container
		"/kubepods.slice/kubepods-pod4.slice/crio-" + a + ".scope":        "shop/pay/app",
		"/kubepods.slice/kubepods-pod4.slice/crio-" + b + ".scope":        "",
		"/kubepods.slice/kubepods-pod4.slice/crio-conmon-" + a + ".scope": "",
		"/kubepods/pod5/" + a:                                             "shop/two/app", "/kubepods/pod5/" + b: "", "/kubepods/pod5/" + strings.Repeat("c", 64): "", // one of them
		"/kubepods/pod1":          "",
		"/system.slice/a.service": "",
	}
	want := []string{"/kubepods.slice/kubepods-pod4.slice/crio-" + b + ".scope", "/kubepods/burstable/pod3/" + b, "/kubepods/pod1/" + b}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(Sandboxes(names)))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
