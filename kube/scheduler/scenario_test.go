package scheduler

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/golden"
)

// A scenario is a dialogue with a complete scheduler. Lines that start with "> " are commands,
// followed by the changes of pods until the scheduler was idle. See scenario.run for the commands.
func TestScenarios(t *testing.T) {
	golden.Scenarios(t, "testdata/scenarios/*.txt", func(t *testing.T, text string) string { return replay(t, text, DefaultConfiguration) })
}

func replay(t *testing.T, text, configuration string) string {
	t.Parallel()
	s := newScenario(t, configuration)
	var out strings.Builder
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			if line == "" || strings.HasPrefix(line, "#") {
				fmt.Fprintln(&out, line)
			}
			continue
		}
		fmt.Fprintln(&out, line)
		for _, change := range s.play(command) {
			fmt.Fprintln(&out, change)
		}
	}
	return out.String()
}

type scenario struct {
	*fakeCluster
	seen  map[string]string
	shown int
}

// newScenario runs commands in a cluster of its own.
func newScenario(t testing.TB, configuration string, commands ...string) *scenario {
	t.Helper()
	s := &scenario{fakeCluster: newFakeCluster(t, configuration), seen: map[string]string{}}
	s.play(commands...)
	return s
}

// play runs commands, each until the scheduler is idle, and returns all changes.
func (s *scenario) play(commands ...string) (changes []string) {
	s.t.Helper()
	for _, command := range commands {
		s.run(strings.Fields(command))
		s.awaitIdle()
		if s.agents() {
			s.awaitIdle()
		}
		changes = append(changes, s.changes()...)
	}
	return changes
}

// run executes one command:
//
//	node NAME SHAPE... [reserved=2] [uid=U]  add a node, which reports its topology
//	replace NAME SHAPE... [uid=U]     delete the node and add one of the same name
//	silent NAME SHAPE...              add a node that does not report
//	report NAME SHAPE... [kubelet=P] [reserved-cpus=LIST] [withheld=LIST] [offline=LIST] [owner=UID] [lease] [ill=WHAT] [foreign] [broken]
//	                                  [old] [gave=POD:CPUS/...]  by the agent, which has allocated CPUs; old does not
//	renew NAME                        renew the lease of the node's agent
//	silence NAME                      let 3 minutes pass without a renewal
//	withdraw NAME                     delete the node's topology
//	pod NAME FIELD...                 create a pod, see podOf
//	edit NAME KEY=VALUE...            set annotations of a pod; KEY- removes one
//	delete NAME                       delete a pod
//	end NAME                          set a pod's phase to Succeeded
func (s *scenario) run(words []string) {
	s.t.Helper()
	name, rest := words[1], words[2:]
	switch words[0] {
	case "node":
		s.addNode(name, rest)
		s.report(name, rest)
	case "silent":
		s.addNode(name, rest)
	case "report":
		s.report(name, rest)
	case "renew":
		s.renew(name)
	case "silence":
		s.silence(3 * time.Minute)
	case "withdraw":
		s.must(s.topologies.Tracker.Delete(topologyResource, "", name))
	case "replace":
		s.must(s.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}))
		s.addNode(name, rest)
	case "pod":
		pod := s.podOf(name, rest)
		s.must(s.client.Tracker().Create(corev1.SchemeGroupVersion.WithResource("pods"), pod, pod.Namespace))
	case "edit":
		s.edit(name, rest)
	case "end":
		s.end(name)
	case "delete":
		s.must(s.client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{}))
		delete(s.seen, name)
	default:
		s.t.Fatalf("unknown command %q", words[0])
	}
}

func (s *scenario) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// fields splits KEY=VALUE words.
func fields(words []string) map[string]string {
	m := map[string]string{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		m[key] = value
	}
	return m
}

// machineOf returns a machine with the counts and without the offline CPUs of the fields.
func machineOf(t testing.TB, f map[string]string) *topology.Machine {
	t.Helper()
	var shape topology.Shape
	for _, name := range []string{"packages", "numa", "llcs", "cores", "threads"} {
		if f[name] == "" {
			continue
		}
		var err error
		if *shape.Count(name), err = strconv.Atoi(f[name]); err != nil {
			t.Fatal(err)
		}
	}
	m := shape.MustBuild()
	topologytest.TakeOffline(m, cpuset.MustParse(f["offline"]))
	return m
}

func (s *scenario) addNode(name string, words []string) {
	f := fields(words)
	total := resource.MustParse(strconv.Itoa(len(machineOf(s.t, f).CPUs)))
	left := total.DeepCopy()
	if f["reserved"] != "" {
		left.Sub(resource.MustParse(f["reserved"]))
	}
	memory, pods := resource.MustParse("64Gi"), resource.MustParse("110")
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(f["uid"]), ResourceVersion: s.nextVersion(), Labels: map[string]string{"name": name}},
		Status: corev1.NodeStatus{
			Capacity:    corev1.ResourceList{"cpu": total, "memory": memory, "pods": pods},
			Allocatable: corev1.ResourceList{"cpu": left, "memory": memory, "pods": pods},
		},
	}
	if _, tainted := f["tainted"]; tainted {
		node.Spec.Taints = []corev1.Taint{{Key: "no", Effect: corev1.TaintEffectNoSchedule}}
	}
	s.must(s.client.Tracker().Add(node))
}

func (s *scenario) report(name string, words []string) {
	f := fields(words)
	reserved, err := cpuset.Parse(f["reserved-cpus"])
	s.must(err)
	withheld := cpuset.MustParse(f["withheld"])
	lease := ""
	if _, leased := f["lease"]; leased {
		lease = nodetopology.LeaseNamespace + "/" + name
	}
	obj, err := nodetopology.FromMachine(name, machineOf(s.t, f).Without(withheld),
		nodetopology.State{KubeletPolicy: f["kubelet"], ReservedCPUs: reserved, WithheldCPUs: withheld, AgentHealth: cmp.Or(f["ill"], nodetopology.AgentHealthy),
			AgentLease: lease, Allocations: allocatedOn(name, f)})
	s.must(err)
	if owner := f["owner"]; owner != "" {
		nodetopology.OwnedByNode(obj, types.UID(owner))
	}
	if _, broken := f["broken"]; broken {
		obj.Machine.Packages = ""
	}
	s.publish(obj)
}

// podOf builds a pod with one container. cpus=N sets request and limit to N CPUs and asks for them;
// request= and limit= set one of them. bound=NODE binds the pod at once. Further fields are
// priority=, on=NODE and namespace=. All others are annotations, to which the prefix is added
// unless they contain "/".
func (s *scenario) podOf(name string, words []string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: s.nextVersion(),
			CreationTimestamp: metav1.Unix(1e9, 0), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	resources := &pod.Spec.Containers[0].Resources
	resources.Requests, resources.Limits = corev1.ResourceList{}, corev1.ResourceList{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "cpus":
			resources.Requests["cpu"], resources.Limits["cpu"] = resource.MustParse(value), resource.MustParse(value)
			pod.Annotations[api.CPUSetSchedulerAnnotation] = "true"
		case "request":
			resources.Requests["cpu"] = resource.MustParse(value)
		case "limit":
			resources.Limits["cpu"] = resource.MustParse(value)
		case "priority":
			n, err := strconv.ParseInt(value, 10, 32)
			s.must(err)
			p := int32(n)
			pod.Spec.Priority = &p
		case "namespace":
			pod.Namespace = value
		case "on":
			pod.Spec.NodeSelector = map[string]string{"name": value}
		case "bound":
			setBound(pod, value, pod.ResourceVersion)
		default:
			pod.Annotations[annotationKey(key)] = value
		}
	}
	return pod
}

func annotationKey(key string) string {
	if strings.Contains(key, "/") || key == "cpuset-scheduler" {
		return key
	}
	return "pinfold.dev/" + key
}

func (s *scenario) end(name string) {
	pods := s.client.CoreV1().Pods("default")
	pod, err := pods.Get(context.Background(), name, metav1.GetOptions{})
	s.must(err)
	pod.ResourceVersion, pod.Status.Phase = s.nextVersion(), corev1.PodSucceeded
	_, err = pods.UpdateStatus(context.Background(), pod, metav1.UpdateOptions{})
	s.must(err)
}

func (s *scenario) edit(name string, words []string) {
	pods := s.client.CoreV1().Pods("default")
	pod, err := pods.Get(context.Background(), name, metav1.GetOptions{})
	s.must(err)
	pod.ResourceVersion = s.nextVersion()
	for key, value := range fields(words) {
		if key, ok := strings.CutSuffix(key, "-"); ok {
			delete(pod.Annotations, annotationKey(key))
		} else {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationKey(key), value)
		}
	}
	_, err = pods.Update(context.Background(), pod, metav1.UpdateOptions{})
	s.must(err)
}

// changes returns the lines about pods that have changed since the last call.
func (s *scenario) changes() []string {
	var lines []string
	present := map[string]bool{}
	for _, pod := range s.pods() {
		present[pod.Name] = true
		if line := s.describe(pod); line != s.seen[pod.Name] {
			s.seen[pod.Name] = line
			lines = append(lines, line)
		}
	}
	for name := range s.seen {
		if !present[name] {
			delete(s.seen, name)
			lines = append(lines, name+" is gone")
		}
	}
	slices.Sort(lines)
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	lines = append(lines, s.events.lines[s.shown:]...)
	s.shown = len(s.events.lines)
	return lines
}

// silentFor matches a time that depends on the speed of the test.
var silentFor = regexp.MustCompile(`\(for [^)]*\)`)

func (s *scenario) describe(pod corev1.Pod) string {
	if pod.Spec.NodeName == "" {
		message, _, _ := strings.Cut(condition(pod), " preemption:") // which the framework adds
		message = silentFor.ReplaceAllString(message, "(for long)")
		return fmt.Sprintf("%s waits: %s", pod.Name, message)
	}
	_, a, err := s.plugin.shared.reports.Named(pod.Spec.NodeName).Allocations().Claim(&pod, nil)
	line := fmt.Sprintf("%s on %s", pod.Name, pod.Spec.NodeName)
	if err != nil {
		return fmt.Sprintf("%s: %v", line, err)
	} else if a == nil {
		return line
	}
	line += ":"
	for _, c := range a.Containers {
		line += fmt.Sprintf(" %s %s of NUMA %v", a.Policy, c.CPUs, c.NUMANodes)
	}
	return line
}
