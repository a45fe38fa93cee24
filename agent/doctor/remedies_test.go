package doctor

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/test/must"
)

// remedies are what a remedy changes: files of the node, and what is below them, and the answers in
// "cluster". They become as on the healthy node in testdata. Those that say where to look change nothing.
var remedies = map[string][]string{
	"docs/agent.md says what each reason means":                                                                                      nil,
	"make sure that it sets neither cpuset nor quota":                                                                                nil,
	"nothing, unless the agent is to run with --partition":                                                                           nil,
	"run doctor on the node itself":                                                                                                  {"etc", "opt"},
	"mount the host's /sys/fs/cgroup, with all that is mounted below it":                                                             {"proc/self/mountinfo", "sys"},
	"give --host-root the directory at which the host's root is mounted":                                                             {"proc/sys"},
	"mount the host's /sys; if it is mounted, report this with the output of 'pinfold topology capture'":                             {"sys"},
	"mount it read-write; in a pod: a hostPath volume of /sys/fs/cgroup whose mount is not readOnly":                                 {"proc/self/mountinfo"},
	"mount the host's /run/systemd into the agent's container, as deploy/manifests does":                                             {"run/systemd/private"},
	"start the kubelet; if it runs with --cgroup-root, use the same option here":                                                     {"sys", "cluster"},
	"drain the node, stop the kubelet, set cpuManagerPolicy: none, remove /var/lib/kubelet/cpu_manager_state, and start the kubelet": {"var", "cluster"},
	"remove the file and restart the kubelet, which does not start with it either":                                                   {"var", "cluster"},
	"use --node-name, and --kubeconfig outside of the cluster":                                                                       {"cluster"},
	"make the API server reachable, and allow the agent what its manifest says":                                                      {"cluster"},
	"use Linux 5.14 or newer to have it":                                                                                             {"boot", "proc", "sys"},
	"use Linux 5.15 or newer for cpu.idle":                                                                                           {"boot", "proc", "sys"},
	"use Linux 5.16 or newer to have it":                                                                                             {"boot", "proc", "sys"},
	"write 1 to /proc/sys/kernel/sched_cfs_bw_burst_enabled":                                                                         {"proc/sys/kernel/sched_cfs_bw_burst_enabled"},
	"enable NRI and restart the runtime (containerd 2: disable = false in plugins.'io.containerd.nri.v1.nri'; CRI-O: enable_nri = true), or give --nri-socket": {"run/nri"},
	"remove it and restart the runtime": {"run/nri"},
	"set tolerate_missing_plugins_annotation, put that annotation on the agent's pod and on static pods, and restart containerd": {"etc/containerd"},
	"remove it, or do not run the agent here":                                            {"opt/nri/plugins/10-topology-aware"},
	"if it is that agent, remove it from this node: two agents undo each other's writes": {"proc/4711"},
	"remove CPUAffinity= from its service or from systemd's system.conf, and restart it; or use runc 1.2.7, 1.3.1 or newer, or crun 1.25 or newer, which undo it": {"proc/812"},
}

// TestRemedies does what each check of the nodes in testdata advises, and the check has nothing to advise
// any more. A new remedy needs an entry above.
func TestRemedies(t *testing.T) {
	healthy := must.Get(txtar.ParseFile("testdata/healthy.txtar"))(t)
	healthy.Files = append(healthy.Files, txtar.File{Name: "run/systemd/private", Data: []byte("socket\n")})
	advised := map[string]bool{}
	for _, path := range must.Get(filepath.Glob("testdata/*.txtar"))(t) {
		given := must.Get(txtar.ParseFile(path))(t)
		for _, remedy := range remediesOf(t, given) {
			advised[remedy] = true
			changes, known := remedies[remedy]
			if !known {
				t.Errorf("%s: no test does this: %s", path, remedy)
			}
			if changes != nil && slices.Contains(remediesOf(t, become(given, healthy, changes)), remedy) {
				t.Errorf("%s: this does not help: %s", path, remedy)
			}
		}
	}
	for remedy := range remedies {
		if !advised[remedy] {
			t.Errorf("no node in testdata needs this: %s", remedy)
		}
	}
}

// remediesOf returns what doctor advises about a node.
func remediesOf(t *testing.T, given *txtar.Archive) (all []string) {
	for line := range strings.Lines(examined(t, given)) {
		if remedy, found := strings.CutPrefix(strings.TrimSpace(line), "-> "); found {
			all = append(all, remedy)
		}
	}
	return all
}

// become returns a node with some files of another, and without its own there.
func become(given, other *txtar.Archive, changes []string) *txtar.Archive {
	changed := func(name string) bool {
		return slices.ContainsFunc(changes, func(c string) bool { return name == c || strings.HasPrefix(name, c+"/") })
	}
	after := &txtar.Archive{}
	for _, f := range given.Files {
		if !changed(f.Name) {
			after.Files = append(after.Files, f)
		}
	}
	for _, f := range other.Files {
		if changed(f.Name) {
			after.Files = append(after.Files, f)
		}
	}
	return after
}
