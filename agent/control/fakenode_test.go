package control

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/agent/control/controltest"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/kube/nri"
)

// fakeNode is a node in memory: an API server, a kubelet, a container runtime and a kernel.
type fakeNode struct {
	control  *Control
	last     Status   // after the last decision
	events   []Notice // since the last round
	config   Config
	now      time.Time
	ticks    time.Duration // monotonic
	shape    topology.Shape
	off      cpuset.Set
	kubelet  *Kubelet
	pods     map[string]*corev1.Pod
	apiGone  bool
	kernel   *fakeKernel
	pending  []Pending                    // of the last decision
	inForce  bool                         // as the agent has recorded it
	given    map[types.UID]api.Allocation // as it has saved
	old      map[types.UID]api.Allocation // as it had saved
	damaged  error                        // why it cannot be read
	diskFull bool
	moved    time.Time // when a running pod was moved last
	moves    int
	mirrors  map[string]int    // how many mirror pods a static pod has had
	unread   bool              // the Node object
	ids      map[string]string // of containers, by POD/CONTAINER
	broken   []string          // violated invariants
}

func newFakeNode() *fakeNode {
	n := &fakeNode{config: Config{NodeName: "n1"}, now: time.Unix(1_800_000_000, 0), pods: map[string]*corev1.Pod{}, ids: map[string]string{}, mirrors: map[string]int{},
		kubelet: &Kubelet{CPUManagerPolicy: "none"}}
	n.kernel = newFakeKernel(n)
	n.restart()
	return n
}

// restart starts an agent, which finds what the last one has left.
func (n *fakeNode) restart() {
	n.control = New(n.config)
	n.control.Step(Event{Allocations: n.given, Unreadable: n.damaged, InForce: n.inForce})
	n.damaged = nil
	n.readNode()
}

// readNode reads the Node object, if it can be read.
func (n *fakeNode) readNode() {
	if !n.unread {
		n.control.Step(Event{Reserved: new(ledger.MilliCPU)})
	}
}

// play runs commands.
func (n *fakeNode) play(t rapid.TB, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := n.run(strings.Fields(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

func (n *fakeNode) run(line []string) (string, error) {
	args := line[1:]
	options := map[string]string{}
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		options[key] = value
	}
	n.now = n.now.Add(time.Second)
	switch command := line[0]; command {
	case "machine":
		return "", n.setMachine(options)
	case "offline", "online":
		return "", n.hotplug(command == "offline", args[0])
	case "kubelet":
		return "", n.setKubelet(options)
	case "pod":
		p, allocations, err := controltest.Pod(args, n.now)
		n.pods[args[0]] = p
		n.control.Step(Event{Allocations: allocations})
		return "", err
	case "resize", "request", "edit", "deferred", "infeasible", "resized":
		return "", n.resize(command, args)
	case "done":
		p := n.pods[args[0]].DeepCopy()
		p.Status.Phase = corev1.PodSucceeded
		n.pods[args[0]] = p
	case "asks":
		n.setAsks(args[0], args[1])
	case "class":
		n.setClass(args)
	case "remove":
		delete(n.pods, args[0])
	case "claim", "forfeit":
		return n.claim(command, args), nil
	case "unclaim":
		n.observe()
		n.control.Step(Event{Unclaim: []types.UID{types.UID("claim-" + args[0])}})
		return n.decide(), nil
	case "node":
		n.unread = args[0] == "unread"
		n.readNode()
	case "mirror":
		n.mirror(args[0])
	case "static":
		n.ask(args[0])
	case "api":
		n.apiGone = args[0] == "gone"
	case "status":
		return "", n.status(args[0])
	case "runtime":
		n.kernel.create(args[0], nri.Settings{})
	case "group":
		return n.makeGroup(args[0]), nil
	case "other":
		n.kernel.other(args[0], args[1:])
	case "create":
		return n.create(args[0]), nil
	case "start":
		return n.start(args[0]), nil
	case "agent":
		return "", n.setAgent(options)
	case "updated":
		n.control.Step(Event{RuntimeWrites: true})
		if len(args) > 0 {
			text := n.decide(n.refOf(args[0]))
			return text + fmt.Sprintf("%s gets quota %v\n", args[0], n.last.Created.Quota), nil
		}
	case "end":
		n.end(args[0])
	case "write":
		return n.kernel.foreign(args[0], options)
	case "affinity":
		n.kernel.affinity[n.kernel.pathOf(args[0])] = cpuset.MustParse(strings.Join(args[1:], ""))
	case "inner":
		outer := n.kernel.pathOf(args[0])
		s := n.kernel.groups[outer]
		s.CPUs = cpuset.Set{}
		n.kernel.groups[outer+"/some"], n.kernel.names[outer+"/some"] = s, args[0]+"/some"
	case "take":
		n.kernel.taken = cpuset.MustParse(strings.Join(args, ""))
	case "vanish", "refuse", "unpartition", "accept":
		n.kernel.faults[n.kernel.pathOf(args[0])] = command
		n.kernel.validate()
	case "disk":
		n.diskFull = args[0] == "full"
	case "forget":
		n.given = nil
	case "cut":
		n.given, n.damaged = nil, errors.New("unexpected end of JSON input")
	case "keep":
		n.old = maps.Clone(n.given)
	case "revert":
		n.given = maps.Clone(n.old)
	case "given":
		text := ""
		all := n.control.allocate.InForce()
		for _, uid := range slices.Sorted(maps.Keys(all)) {
			for _, c := range all[uid].Containers {
				text += fmt.Sprintf("%s/%s has CPUs %q in NUMA nodes %v\n", strings.TrimPrefix(string(uid), "uid-"), c.Name, c.CPUs, c.NUMANodes)
			}
		}
		return text, nil
	case "devices":
		devices, err := n.control.Devices(dra.ByNUMA)
		text := ""
		for _, d := range devices {
			text += fmt.Sprintf("%s: %d CPUs\n", d.Name, d.Size)
		}
		return text, err
	case "wait":
		pause, err := time.ParseDuration(args[0])
		n.now = n.now.Add(pause)
		return "", err
	case "tick":
		return n.tick(args)
	case "stop":
		if last, _ := n.control.Tick(groups.Tick{Last: true}); last.Write {
			return n.decide(), nil
		}
		return "nothing to do\n", nil
	case "restart":
		n.restart()
	case "round":
		return n.round(), nil
	case "groups":
		return n.kernel.print(), nil
	case "condition":
		c := n.last.Report.Condition
		return fmt.Sprintf("%s %s: %s\n", c.Status, c.Reason, n.kernel.named(c.Message)), nil
	case "lost":
		return fmt.Sprintf("pods that have lost CPUs: %d\n", n.last.Report.Summary.Lost), nil
	case "pending":
		text := ""
		for _, p := range n.pending {
			for _, f := range p.Files {
				text += fmt.Sprintf("%s: %s: %q -> %q\n", n.kernel.name(p.Group), f.File, f.Now, f.Wanted)
			}
		}
		return text, nil
	case "cleanup":
		n.config.Restore = true
		n.restart()
		n.config.Restore = false
		n.observe()
		text := n.decide()
		n.events = nil // a cleanup sends no events
		return text, nil
	default:
		return "", fmt.Errorf("unknown command %q", command)
	}
	return "", nil
}

func (n *fakeNode) setMachine(options map[string]string) error {
	for key, value := range options {
		if count := n.shape.Count(key); count != nil {
			var err error
			if *count, err = strconv.Atoi(value); err != nil {
				return err
			}
		}
	}
	n.kernel.v2 = options["cgroup"] == "v2"
	n.kernel.noBurst, n.kernel.burstOff = options["burst"] == "none", options["burst"] == "off"
	n.kernel.noPartition = options["partitions"] == "none"
	n.kernel.has = strings.Split(cmp.Or(options["has"], "idle"), ",")
	n.kernel.makeTiers()
	return nil
}

func (n *fakeNode) machine() *topology.Machine {
	m := n.shape.MustBuild()
	topologytest.TakeOffline(m, n.off)
	return m
}

func (n *fakeNode) hotplug(off bool, list string) error {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return err
	}
	if off {
		n.off = n.off.Union(cpus)
		n.kernel.takeOut(cpus)
	} else {
		n.off = n.off.Difference(cpus)
	}
	return nil
}

func (n *fakeNode) setKubelet(options map[string]string) error {
	if _, unknown := options["unknown"]; unknown {
		n.kubelet = nil
		return nil
	}
	n.kubelet = &Kubelet{CPUManagerPolicy: options["policy"], NoPodGroups: options["groups"] == "none"}
	if text := options["period"]; text != "" {
		period, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		n.kubelet.Quota.Period = period
	}
	reserved, err := cpuset.Parse(options["reserved"])
	n.kubelet.ReservedCPUs = reserved
	return err
}

func (n *fakeNode) refOf(of string) nodeplan.Ref {
	return nodeplan.Ref{Pod: ledger.PodID(n.idOf(path.Dir(of))), Container: path.Base(of)}
}

// create asks the agent about a new container and creates it, as the runtime does.
func (n *fakeNode) create(of string) string {
	ref, pod := n.refOf(of), path.Dir(of)
	n.observe()
	n.kernel.makePod(pod)
	id := n.kernel.newID(of)
	n.control.Step(Event{Created: map[nodeplan.Ref]string{ref: id}, At: n.now})
	n.addGroup(pod)
	text := n.decide(ref)
	given := n.last.Created
	if refused := n.last.Refused; refused != nil {
		return text + fmt.Sprintf("%s is refused: %v\n", of, refused)
	}
	text += fmt.Sprintf("%s gets CPUs %q, quota %v", of, given.CPUs, given.Quota)
	if given.Period != 0 {
		text += fmt.Sprintf(" in %v", given.Period)
	}
	n.kernel.create(of, given)
	return text + "\n"
}

// start tells the agent about a container's cgroup, as the runtime does before anything runs in it.
func (n *fakeNode) start(of string) string {
	pod, _, _ := strings.Cut(of, "/")
	n.addGroup(pod)
	n.addGroup(of)
	return n.decide()
}

// addGroup tells the agent about a new cgroup.
func (n *fakeNode) addGroup(of string) {
	path := n.kernel.pathOf(of)
	place, _ := n.kernel.naming.Parse(path)
	n.control.Step(Event{Group: &Group{path, place, n.kernel.groups[path]}})
}

// observe passes the state of the node to the state machine.
func (n *fakeNode) observe() {
	view := n.kernel.view()
	n.control.Step(Event{Machine: n.machine(), Kubelet: n.kubelet, Pods: n.list(), Groups: &view})
}

// list returns the pods, or nil if the API server cannot be reached.
func (n *fakeNode) list() []*corev1.Pod {
	if n.apiGone {
		return nil
	}
	pods := []*corev1.Pod{}
	for _, name := range slices.Sorted(maps.Keys(n.pods)) {
		pods = append(pods, n.pods[name])
	}
	return pods
}

// execute carries out a decision and prints it.
func (n *fakeNode) execute(d Decision) string {
	var b strings.Builder
	n.inForce = d.InForce
	r := d.Execute(n.kernel)
	if !n.inForce && len(r.Written) > 0 {
		n.broken = append(n.broken, fmt.Sprintf("written although nothing is needed: %v", r.Written))
	}
	n.last = n.control.Advance(Ready{Writes: &d}, r)
	n.events, n.broken = append(n.events, n.last.Report.Events...), append(n.broken, miscounted(&n.last.Report.Summary)...)
	if d.Hold != "" {
		fmt.Fprintf(&b, "on hold: %s\n", d.Hold)
		return b.String()
	}
	for _, f := range d.Foreign {
		fmt.Fprintf(&b, "foreign: %s of %s was changed from %s to %s", f.Field, n.kernel.name(f.Path), f.Ours, f.Theirs)
		if f.Left {
			b.WriteString(" and is left")
		}
		b.WriteString("\n")
	}
	for _, w := range r.Written {
		fmt.Fprintf(&b, "%s: %s = %s\n", n.kernel.name(w.Path), w.File, w.Value)
	}
	n.pending = d.Pending
	for _, path := range slices.Sorted(maps.Keys(r.Failed)) {
		fmt.Fprintf(&b, "failed: %s\n", n.kernel.named(r.Failed[path].Error()))
	}
	for _, path := range slices.Sorted(maps.Keys(r.Unpartitioned)) {
		fmt.Fprintf(&b, "no partition: %s\n", n.kernel.named(r.Unpartitioned[path].Error()))
	}
	if b.Len() == 0 {
		return "nothing to do\n"
	}
	return b.String()
}
