package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

// runtime checks NRI, and other plugins that set the same fields.
func (x *examination) runtime(context.Context) {
	info, err := os.Stat(x.path(x.NRISocket))
	switch {
	case err != nil && (!errors.Is(err, fs.ErrNotExist) || !x.whole()):
		x.add("NRI", Skipped, fmt.Sprintf("%s cannot be seen here: %v", x.NRISocket, errors.Unwrap(err)), "give --nri-socket as to the agent, or run doctor on the node itself")
	case err != nil:
		x.add("NRI", Note, "there is no "+x.NRISocket+": containers start with the kubelet's settings and get Pinfold's within seconds",
			"enable NRI and restart the runtime (containerd 2: disable = false in plugins.'io.containerd.nri.v1.nri'; CRI-O: enable_nri = true), or give --nri-socket")
	case info.Mode()&fs.ModeSocket == 0:
		x.add("NRI", Problem, x.NRISocket+" is not a socket", "remove it and restart the runtime")
	default:
		x.add("NRI", OK, x.NRISocket, "")
	}
	x.required()
	x.plugins()
	x.affinity()
}

// containerdConfig is the default path of containerd's configuration.
const containerdConfig = "/etc/containerd/config.toml"

// required checks whether containerd rejects containers while the agent is not connected. It
// searches the text of the configuration and does not evaluate it.
func (x *examination) required() {
	text, found, err := x.read(containerdConfig)
	switch {
	case err != nil:
		x.add("required plugins", Skipped, err.Error(), "run doctor on the node itself as root")
		return
	case !found:
		return
	}
	at := strings.Index(text, "required_plugins")
	if at < 0 {
		return
	}
	line, _, _ := strings.Cut(text[at:], "]")
	switch {
	case !strings.Contains(line, "pinfold"):
	case !strings.Contains(text, "tolerate_missing_plugins_annotation"):
		x.add("required plugins", Problem, containerdConfig+" requires the agent for every container, including the agent's own",
			"set tolerate_missing_plugins_annotation, put that annotation on the agent's pod and on static pods, and restart containerd")
	default:
		x.add("required plugins", OK, "containerd rejects containers while the agent is not connected", "")
	}
}

// pluginDir is the directory of the plugins that runtimes start themselves.
const pluginDir = "/opt/nri/plugins"

// competingPlugins returns parts of the names of NRI plugins that set cpuset or quota
// (github.com/containers/nri-plugins and others).
func competingPlugins() []string {
	return []string{"topology-aware", "balloons", "template", "koord", "cpuset", "cpu-"}
}

func (x *examination) plugins() {
	names, unknown := x.list(pluginDir)
	if unknown != "" {
		x.add("NRI plugins", Skipped, unknown, "run doctor on the node itself")
		return
	}
	var competing []string
	for _, name := range names {
		if slices.ContainsFunc(competingPlugins(), func(part string) bool { return strings.Contains(name, part) }) {
			competing = append(competing, path.Join(pluginDir, name))
		}
	}
	switch {
	case len(competing) > 0:
		x.add("NRI plugins", Problem, strings.Join(competing, ", ")+": the runtime rejects a container if two plugins set its CPUs",
			"remove it, or do not run the agent here")
	case len(names) > 0:
		x.add("NRI plugins", Note, strings.Join(names, ", ")+" in "+pluginDir, "make sure that it sets neither cpuset nor quota")
	default:
		x.add("NRI plugins", OK, "none in "+pluginDir, "")
	}
}

// others checks for programs that write the same settings as the agent.
func (x *examination) others(context.Context) {
	agents, unknown := x.processes(knownAgents())
	for _, p := range agents {
		x.add("other agents", Problem, p.String()+": an agent of this name writes cpuset and quota of pods, too",
			"if it is that agent, remove it from this node: two agents undo each other's writes")
	}
	if unknown != "" {
		x.add("other agents", Skipped, unknown, "mount the host's /proc, and run in its PID namespace")
	} else if len(agents) == 0 {
		x.add("other agents", OK, "none is running", "")
	}
}

// agent shows what the node's agent has published of itself: what it reads of machine and control
// groups in each round is not checked here again.
func (x *examination) agent(ctx context.Context) {
	const check = "condition"
	if x.Cluster == nil {
		x.add(check, Skipped, "the API server was not asked", "use --node-name, and --kubeconfig outside of the cluster")
		return
	}
	c, err := x.Cluster.Condition(ctx)
	found := fmt.Sprintf("%s (%s): %s", c.Status, c.Reason, c.Message)
	switch {
	case err != nil:
		x.add(check, Skipped, err.Error(), "make the API server reachable, and allow the agent what its manifest says")
	case c.Status == "":
		x.add(check, OK, "no agent has published any", "")
	case c.Status == corev1.ConditionTrue && c.Message == nodetopology.Enforced:
		x.add(check, OK, found, "")
	case c.Status == corev1.ConditionTrue:
		x.add(check, Note, found, "docs/agent.md says what each note means")
	case c.Status == corev1.ConditionFalse && c.Reason != nodetopology.Observing:
		x.add(check, Problem, found, "docs/agent.md says what each reason means")
	default:
		x.add(check, Note, found, "nothing if this is meant, or the agent has just started; else look at its log")
	}
	if err == nil && c.Status != "" {
		x.pods(ctx)
	}
}

// pods shows what the agent says of pods: whoever may write pods can cause it, so it is no problem of
// the node.
func (x *examination) pods(ctx context.Context) {
	const check, most = "pods", 10
	found, err := x.Cluster.Findings(ctx)
	if err != nil {
		x.add(check, Skipped, err.Error(), "make the API server reachable, and allow the agent what its manifest says")
		return
	}
	found = slices.DeleteFunc(found, func(f nodetopology.Finding) bool { return f.Pod == "" || f.Severity != string(status.Warning) })
	for _, f := range found[:min(len(found), most)] {
		x.add(check, Note, f.Reason+": "+f.Message, "docs/agent.md says what each reason means")
	}
	if more := len(found) - most; more > 0 {
		x.add(check, Note, fmt.Sprintf("%d more like these", more), "'kubectl pinfold status NODE -o wide' has them all")
	}
}

// knownAgents returns the process names of other node agents that manage the CPUs of pods.
func knownAgents() []string {
	return []string{"koordlet", "katalyst-agent", "crane-agent", "volcano-agent", "cpuset-agent", "intel-cmk"}
}

// process is a running process.
type process struct{ name, pid string }

func (p process) String() string { return p.name + " (process " + p.pid + ")" }

// processes returns the running processes with one of some names, or why they are not known.
func (x *examination) processes(names []string) (running []process, unknown string) {
	all, unknown := x.list("/proc")
	for _, pid := range all {
		if strings.Trim(pid, "0123456789") != "" {
			continue
		}
		name, found, err := x.read(path.Join("proc", pid, "comm"))
		// The kernel keeps 15 bytes of a name.
		if err == nil && found && slices.ContainsFunc(names, func(a string) bool { return a[:min(len(a), 15)] == name }) {
			running = append(running, process{name, pid})
		}
	}
	return running, unknown
}

// affinity checks whether containers inherit an affinity (CPUAffinity= of a service) from their
// runtime. Since Linux 6.2 a thread keeps it in another group (da019032819a sched: Enforce user
// requested affinity), unless the low-level runtime removes it.
func (x *examination) affinity() {
	const check = "runtime's affinity"
	running, _ := x.processes([]string{"containerd", "crio"})
	if x.groups == nil {
		return // said above
	}
	for _, p := range running {
		own, of, err := x.boundTo(p)
		switch {
		case err != nil:
			x.add(check, Skipped, err.Error(), "run doctor on the node itself as root")
		case !of.IsSubsetOf(own):
			x.add(check, Note, fmt.Sprintf("%s is bound to CPUs %s of %s, and since Linux 6.2 its containers are, too", p, own, of),
				"remove CPUAffinity= from its service or from systemd's system.conf, and restart it; or use runc 1.2.7, 1.3.1 or newer, or crun 1.25 or newer, which undo it")
		default:
			x.add(check, OK, p.String()+" has none", "")
		}
	}
}

// boundTo returns the CPUs that a process may run on, and those that it might without an affinity of
// its own: those of its group, but no isolated ones.
func (x *examination) boundTo(p process) (own, of cpuset.Set, err error) {
	text, _, err := x.read(path.Join("proc", p.pid, "status"))
	if err != nil {
		return own, of, err
	}
	_, list, _ := strings.Cut(text, "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	if own, err = cpuset.Parse(strings.TrimSpace(list)); err != nil || own.IsEmpty() {
		return own, of, fmt.Errorf("the affinity of %s is not known: its status has CPUs %q", p, list)
	}
	pid, _ := strconv.Atoi(p.pid)
	group, err := cgrouptree.Of(x.groups, cgroup.CPUSet, pid)
	if err == nil {
		of, err = x.groups.Effective(group)
	}
	if m, unknown := x.topology(); unknown == nil {
		of = of.Difference(m.Isolated)
	}
	return own, of, err
}
