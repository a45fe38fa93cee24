package status

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/must"
)

// look is a remedy that only says where to look.
const look = ""

// remedies are what the actions of problems mean: the name of the one that a test does for an operator,
// or look. An action can have several, of which each must help.
var remedies = map[string][]string{
	"look at the agent's log":                                             {look},
	"look at the agent's pod":                                             {look},
	"look at the agent's log for the reason":                              {look},
	"look at the agent's log, and run 'pinfold-agent doctor' on the node": {look},
	"install the agents (docs/operations.md), or name the namespace of their leases with --lease-namespace":         {"agents"},
	"label the nodes as its nodeSelector says, or tolerate their taints, or correct the chart's agent.nodeSelector": {"agents"},
	"its events say what refuses the pods, such as Pod Security of the namespace, a quota or a webhook":             {"agents"},
	"look at the Deployment and its pods": {"ready"},
	"create it again with lower limits, or on a larger node: this one cannot serve it, even without other pods": {"again"},
	"its events say why": {look},
	"the node is not ready either: look at its kubelet first":                                                  {look},
	"check that the node reaches the API server, and that the agent may read nodes/configz; its log says more": {look},
	"start the agent on the node, or remove what it left with 'pinfold-agent cleanup'":                         {"agent", "cleanup"},
	"name the namespace of the agents' leases with --lease-namespace, or look at who wrote that":               {"namespace"},
	"synchronise the clocks of node and API server; if the lease stays so, delete it":                          {"clocks", "command"},
	"delete the lease, which the node's agent makes again; if another holder comes back, stop that":            {"command"},
	"upgrade scheduler, agent and the definition of NodeTopology to the same version":                          {"upgrade"},
	"delete the object, and the agent publishes it again":                                                      {"command"},
	"delete it": {"command"},
	"start the scheduler; if this scheduler was removed for good, delete its lease":                                                                   {"scheduler", "command"},
	"synchronise the clocks of its node and the API server; if this scheduler was removed for good, delete its lease":                                 {"clocks", "command"},
	"look at the scheduler's log; if this scheduler was removed for good, delete its lease":                                                           {look, "command"},
	"stop that scheduler, and a replica of Pinfold's takes the lease; or, if Pinfold's was removed for good, delete the lease":                        {"scheduler", "command"},
	"move pods away from the node, those first that the Pinfold scheduler did not place: spec.nodeName, static pods, other schedulers, resizes":       {"move"},
	"move some of the node's pods elsewhere; Pinfold's scheduler, if you use it, can evict batch pods (evictBatchPods)":                               {"enforced"},
	"'/pinfold-agent status --host-root=/host' in the agent's pod says what it would write; set the chart's agent.mode to enforce when that is right": {"enforced"},
	"correct the kubelet's configuration, as the message says":                                                                                        {"enforced"},
	"delete one of the pods with exclusive CPUs, and raise minSharedCPUs of agents and scheduler":                                                     {"enforced"},
	"delete a static-burst pod of the node to have it placed elsewhere":                                                                               {"enforced"},
	"delete the pod, and create it again from its manifest":                                                                                           {"command"},
	"delete the pod, and its ReplicaSet creates another one":                                                                                          {"command"},
	"move the file of this static pod out of the kubelet's directory, and back when the pod has ended":                                                {"file"},
	"bring the CPUs online and let pods use them again, or delete the pod, and create it again from its manifest":                                     {"online", "command"},
	"correct this in what the pod is created from, then delete the pod, and create it again from its manifest":                                        {"command"},
	// What agents report, and whose advice agent/control/testdata tests, is in their messages.
	"do what the message says; if CPUs lack, the pod gets them once there are enough":                                        {look},
	"do what the message says, if anything; docs/agent.md says more about NoKernelBurst":                                     {look},
	"correct what the message names in what the pod is created from, or remove it; docs/agent.md explains UnknownAnnotation": {look},
	"remove the cause that the message names; the agent tries again by itself, and reads flags when it starts again":         {look},
	"do what the message says (docs/dra.md has the feature gates), or set the chart's agent.claims to none":                  {"enforced"},
	"let the agents run on this node, or the pod on another one (nodeSelector)":                                              {"move"},
	"make room for it on its node, or exclude the node":                                                                      {"room"},
	"create the pod with lower limits, or add a larger node":                                                                 {"lower", "larger"},
}

// TestRemedies does what each problem of the clusters in testdata advises, and checks that the problem is
// gone. A new action needs an entry above. What agents enforce after a change is tested in
// agent/control/testdata.
func TestRemedies(t *testing.T) {
	seen := map[string]bool{}
	for _, path := range must.Get(filepath.Glob("testdata/*.txtar"))(t) {
		objects := ""
		for _, f := range must.Get(txtar.ParseFile(path))(t).Files {
			if f.Name == "cluster.yaml" {
				objects = string(f.Data)
			}
		}
		read := func() (f fixture) {
			must.Do(t, yaml.UnmarshalStrict([]byte(objects), &f))
			return f
		}
		before := read()
		for _, p := range before.objects(t, "").Report().Problems {
			seen[p.Action] = true
			all, known := remedies[p.Action]
			if !known {
				t.Errorf("%s: no test does this: %s", path, p.Action)
			}
			for _, remedy := range all {
				after := read()
				objects := after.objects(t, "")
				switch {
				case remedy == "namespace":
					objects.LeaseNamespace = "team"
				case remedy != look:
					after.apply(t, remedy, p)
					objects = after.objects(t, "")
				}
				if left := objects.Report().Problems; remedy != look && slices.ContainsFunc(left, func(q status.Problem) bool {
					return q.Kind == p.Kind && q.Node == p.Node && q.Pod == p.Pod && (q.Node+q.Pod != "" || q.Message == p.Message)
				}) {
					t.Errorf("%s: after %q (%s), still: %+v", path, p.Action, remedy, p)
				}
			}
		}
	}
	for action := range remedies {
		if !seen[action] {
			t.Errorf("no cluster in testdata has a problem with this remedy: %s", action)
		}
	}
}

// apply changes the objects as the world does when an operator has followed a remedy.
func (f *fixture) apply(t *testing.T, remedy string, p status.Problem) {
	topology := func() *fixtureTopology {
		return &f.Topologies[slices.IndexFunc(f.Topologies, func(o fixtureTopology) bool { return o.Node == p.Node })]
	}
	switch remedy {
	case "command":
		f.kubectl(t, p)
	case "cleanup":
		f.Topologies = slices.DeleteFunc(f.Topologies, func(o fixtureTopology) bool { return o.Node == p.Node })
		f.deleteLease(nodetopology.LeaseNamespace, p.Node)
	case "agent":
		f.deleteLease(nodetopology.LeaseNamespace, p.Node)
		f.Leases = append(f.Leases, lease(nodetopology.LeaseNamespace, p.Node, f.Time))
	case "agents":
		for _, node := range f.Nodes {
			f.Leases = append(f.Leases, lease(nodetopology.LeaseNamespace, node.Name, f.Time))
		}
		for _, set := range f.DaemonSets {
			set.Status.CurrentNumberScheduled = set.Status.DesiredNumberScheduled
		}
	case "ready":
		for _, d := range f.Deployments {
			d.Status.ReadyReplicas = 1
		}
	case "clocks", "scheduler":
		for _, l := range f.Leases {
			if l.Name == p.Node || p.Node == "" && l.Namespace+"/"+l.Name == named(p.Message, f.Leases) {
				now := lease(l.Namespace, l.Name, f.Time)
				l.Spec.RenewTime = now.Spec.RenewTime
				if remedy == "scheduler" { // a replica of Pinfold's holds it
					holder, _, _ := strings.Cut(l.Annotations["pinfold.dev/version"], " ")
					l.Spec.HolderIdentity = &holder
				}
			}
		}
	case "upgrade":
		topology().Damaged = false
	case "online":
		topology().Offline = cpuset.Set{}
	case "again":
		f.deletePod(p.Pod)
	case "file": // the kubelet ends the pod
		f.deletePod(p.Pod)
	case "move":
		f.Pods = slices.DeleteFunc(f.Pods, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == p.Node })
	case "room": // the scheduler places the agent
		for _, pod := range f.Pods {
			if pod.Namespace+"/"+pod.Name == p.Pod {
				pod.Status.Conditions = nil
			}
		}
	case "larger":
		f.Nodes = append(f.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "larger"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resource.MustParse("512")}}})
	case "lower":
		for _, pod := range f.Pods {
			if pod.Namespace+"/"+pod.Name == p.Pod {
				pod.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("2")
			}
		}
	case "enforced": // the agent is content
		if topology := topology(); topology.Health != "" {
			topology.Health = ""
		}
		for _, node := range f.Nodes {
			if node.Name == p.Node {
				node.Status.Conditions = node.Status.Conditions[:1]
			}
		}
	default:
		t.Fatalf("unknown remedy %q", remedy)
	}
}

// kubectl does what the command of a problem does.
func (f *fixture) kubectl(t *testing.T, p status.Problem) {
	words := strings.Fields(p.Command)
	switch {
	case len(words) == 6 && words[3] == "delete" && words[4] == "pod" && words[2]+"/"+words[5] == p.Pod:
		f.deletePod(p.Pod)
	case len(words) == 6 && words[3] == "delete" && words[4] == "lease":
		f.deleteLease(words[2], words[5])
		if p.Node != "" { // its agent runs, and makes it again
			f.Leases = append(f.Leases, lease(words[2], words[5], f.Time))
		}
	case len(words) == 4 && words[1] == "delete" && words[2] == "nodetopologies.pinfold.dev":
		f.Topologies = slices.DeleteFunc(f.Topologies, func(o fixtureTopology) bool { return o.Node == words[3] })
	default:
		t.Errorf("%s: the command %q does not do it", p.Action, p.Command)
	}
}

func (f *fixture) deletePod(name string) {
	f.Pods = slices.DeleteFunc(f.Pods, func(pod *corev1.Pod) bool { return pod.Namespace+"/"+pod.Name == name })
}

func (f *fixture) deleteLease(namespace, name string) {
	f.Leases = slices.DeleteFunc(f.Leases, func(l *coordinationv1.Lease) bool { return l.Namespace == namespace && l.Name == name })
}

// lease returns one that was renewed now.
func lease(namespace, name string, now time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: now}}}
}

// named returns the lease that a message names.
func named(message string, leases []*coordinationv1.Lease) string {
	for _, l := range leases {
		if name := l.Namespace + "/" + l.Name; strings.Contains(message, name) {
			return name
		}
	}
	return ""
}

// TestSuggestNodes: an error about a node says which there are, in a sentence.
func TestSuggestNodes(t *testing.T) {
	names := []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "other"}
	for _, test := range []struct {
		names       []string
		meant, want string
	}{
		{names, "othr", "did you mean other?"},
		{names, "n", "did you mean n1, n2, n3, n4, n5, or one of 2 others?"},
		{names, "production", "the cluster has n1, n2, n3, n4, n5 and 3 others, as 'kubectl get nodes' lists them"},
		{names[:2], "production", "the cluster has n1, n2"},
		{nil, "n1", "the cluster has no nodes"},
	} {
		if got := suggestNodes(test.names, test.meant); got != test.want {
			t.Errorf("%q: %q, want %q", test.meant, got, test.want)
		}
	}
}
