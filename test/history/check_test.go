package history

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestCheck plays the histories in testdata, each of which violates a rule or almost does. Each
// command creates one event; see [script.run].
func TestCheck(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		s := &script{nodes: map[string]simnode.Node{}, pods: map[string]*corev1.Pod{},
			allocated: map[string]api.Allocation{}, gone: map[string]bool{}}
		return golden.Blocks(t, text, s.run)
	})
}

// TestReplay checks a history from a file.
func TestReplay(t *testing.T) {
	const variable = "PINFOLD_TEST_HISTORY"
	path := os.Getenv(variable)
	if path == "" {
		t.Skipf("no history to check: set %s to a file", variable)
	}
	file := must.Get(os.Open(path))(t)
	defer file.Close()
	events := must.Get(Read(file))(t)
	report := must.Get(Check(events, Options{MinSharedCPUs: 1}))(t)
	t.Log(report)
	for _, v := range report.Violations {
		t.Error(v)
	}
}

// script creates a history from commands.
type script struct {
	events  []Event
	gapFrom uint64 // 0: no gap
	nodes   map[string]simnode.Node
	pods    map[string]*corev1.Pod
	// allocated is what agents have allocated to pods, and gone are those that were deleted.
	allocated map[string]api.Allocation
	gone      map[string]bool
	checked   int // number of violations that earlier checks printed
}

// run executes one command:
//
//	node NAME SHAPE [reserved=CPUS]
//	topology NAME lost
//	publish NODE                  what its agent has allocated; bind and edit do that
//	pod NAME [KEY=VALUE...]       keys: node, scheduler, policy, limit, request, namespace, and those of bind
//	bind NAME NODE [KEY=VALUE...] keys: cpus or numa, which the agent allocates
//	edit NAME KEY=VALUE...        changes a bound pod, with the same keys
//	finish | revive | delete NAME
//	gap | end                     events between these come from a list
//	check                         prints new violations
func (s *script) run(words []string) (string, error) {
	options := map[string]string{}
	var names []string
	for _, word := range words[1:] {
		if key, value, ok := strings.Cut(word, "="); ok {
			options[key] = value
		} else {
			names = append(names, word)
		}
	}
	switch words[0] {
	case "check":
		return s.check()
	case "gap":
		s.gapFrom = s.revision() - 1
		return "", nil
	case "end":
		s.events = append(s.events, Event{Revision: s.revision(), Type: Gap, Kind: Pod, From: s.gapFrom})
		s.gapFrom = 0
		return "", nil
	case "node":
		return "", s.node(names[0], names[1], options["reserved"])
	case "publish":
		return "", s.publish(names[0])
	case "topology":
		return "", s.add(Deleted, Topology, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: names[0]}})
	}
	return "", s.pod(words[0], names, options)
}

func (s *script) revision() uint64 { return uint64(len(s.events)) + 1 }

func (s *script) add(what Type, kind Kind, object any) error {
	text, err := json.Marshal(object)
	s.events = append(s.events, Event{Revision: s.revision(), Type: what, Kind: kind, Object: text, Relisted: s.gapFrom > 0})
	return err
}

func (s *script) node(name, shape, reserved string) error {
	built, _, err := simnode.ParseShape(shape)
	if err != nil {
		return err
	}
	n := simnode.Node{Name: name, Machine: built.MustBuild(), ReservedCPUs: cpuset.MustParse(reserved)}
	report, err := n.Topology("uid-of-" + types.UID(name))
	if err != nil {
		return err
	}
	s.nodes[name] = n
	if err := s.add(Added, Node, n.Object()); err != nil {
		return err
	}
	return s.add(Added, Topology, report)
}

// publish publishes what the agent of a node has allocated. Pods that have ended or are gone have nothing.
func (s *script) publish(name string) error {
	all := api.Allocations{}
	for pod, a := range s.allocated {
		if p := s.pods[pod]; a.Node == name && !s.gone[pod] && !ended(p) {
			all[p.UID] = a
		}
	}
	report, err := nodetopology.FromMachine(name, s.nodes[name].Machine, nodetopology.State{AgentHealth: nodetopology.AgentHealthy,
		ReservedCPUs: s.nodes[name].ReservedCPUs, Allocations: all})
	if err != nil {
		return err
	}
	return s.add(Modified, Topology, report)
}

func (s *script) pod(command string, names []string, options map[string]string) error {
	pod, what := s.pods[names[0]], Modified
	switch command {
	case "pod":
		pod, what = s.make(names[0], options), Added
		s.pods[names[0]] = pod
	case "bind":
		pod.Spec.NodeName = names[1]
	case "finish":
		pod.Status.Phase = corev1.PodSucceeded
	case "revive":
		pod.Status.Phase = corev1.PodRunning
	case "delete":
		what, s.gone[names[0]] = Deleted, true
	case "edit":
	default:
		return fmt.Errorf("unknown command")
	}
	if policy, ok := options["policy"]; ok {
		setPolicy(pod, policy)
	}
	if request, ok := options["request"]; ok {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
	}
	if err := s.add(what, Pod, pod); err != nil {
		return err
	}
	if a := s.allocation(pod, options); len(a.Containers) > 0 {
		s.allocated[pod.Name] = a
		return s.publish(a.Node)
	}
	return nil
}

func (s *script) make(name string, options map[string]string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: options["namespace"], UID: "uid-of-" + types.UID(name), Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: options["node"], Containers: []corev1.Container{{Name: "app"}}},
	}
	pod.Spec.SchedulerName = options["scheduler"]
	if limit, ok := options["limit"]; ok {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	}
	return pod
}

// setPolicy makes a pod ask for CPUs, unless the policy is "none".
func setPolicy(pod *corev1.Pod, policy string) {
	pod.Annotations[api.CPUSetSchedulerAnnotation] = "true"
	pod.Annotations[api.CPUPolicyAnnotation] = policy
}

// allocation returns the allocation that the options describe, without containers if they describe none.
func (s *script) allocation(pod *corev1.Pod, options map[string]string) api.Allocation {
	a := api.Allocation{Version: 1, Node: pod.Spec.NodeName, Policy: placement.Static}
	part := api.ContainerAllocation{Name: "app", NUMANodes: []topology.NUMAID{0}}
	switch cpus, numa := options["cpus"], options["numa"]; {
	case cpus != "":
		part.CPUs = cpuset.MustParse(cpus)
	case numa != "":
		a.Policy, part.NUMANodes = placement.StaticBurst, nil
		for id := range strings.SplitSeq(numa, ",") {
			n, _ := strconv.Atoi(id)
			part.NUMANodes = append(part.NUMANodes, topology.NUMAID(n))
		}
	default:
		return a
	}
	a.Containers = append(a.Containers, part)
	return a
}

// check checks the events so far, after a round trip through Write and Read.
func (s *script) check() (string, error) {
	var file strings.Builder
	if err := Write(&file, s.events); err != nil {
		return "", err
	}
	events, err := Read(strings.NewReader(file.String()))
	if err != nil {
		return "", err
	}
	report, err := Check(events, Options{MinSharedCPUs: 1, Stock: "stock"})
	if err != nil {
		return "", err
	}
	out := report.String() + "\n"
	for _, v := range report.Violations[s.checked:] {
		out += v.String() + "\n"
	}
	s.checked = len(report.Violations)
	return out, nil
}

func TestReadErrors(t *testing.T) {
	const good = `{"revision":1,"type":"ADDED","kind":"Pod","object":{"metadata":{"name":"a"}}}` + "\n"
	for name, text := range map[string]string{
		"cut short": good + good[:40],
		"no number": strings.Replace(good, "1", `"x"`, 1),
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	events := must.Get(Read(strings.NewReader(strings.Replace(good, `{"name":"a"}`, "7", 1))))(t)
	if _, err := Check(events, Options{}); err == nil || !strings.Contains(err.Error(), "Pod at revision 1") {
		t.Errorf("an invalid object: %v", err)
	}
}

// TestConfinements: the requests of containers that run at the same time add up, and ordinary init
// containers run before the others.
func TestConfinements(t *testing.T) {
	m := topology.Shape{CoresPerLLC: 8}.MustBuild()
	burst := func(role ledger.Role, request ledger.MilliCPU) ledger.ContainerClaim {
		return ledger.ContainerClaim{Role: role, Policy: placement.StaticBurst, Request: request, NUMANodes: []topology.NUMAID{0}}
	}
	for _, test := range []struct {
		containers []ledger.ContainerClaim
		want       ledger.MilliCPU
	}{
		{[]ledger.ContainerClaim{burst(ledger.RoleMain, 2), burst(ledger.RoleMain, 3)}, 5},
		{[]ledger.ContainerClaim{burst(ledger.RoleInit, 4), burst(ledger.RoleMain, 2), burst(ledger.RoleMain, 3)}, 5},
		{[]ledger.ContainerClaim{burst(ledger.RoleInit, 7), burst(ledger.RoleInit, 6), burst(ledger.RoleMain, 2)}, 7},
	} {
		found := confinementsOf(m, nil, test.containers)
		if len(found) != 1 || found[0].request != test.want {
			t.Errorf("%+v: %+v, want a request of %d", test.containers, found, test.want)
		}
	}
}
