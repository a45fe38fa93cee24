package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/survey"
	"pinfold.dev/pinfold/report"
	text "pinfold.dev/pinfold/report/status"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestScenarios prints the states of the clusters in testdata. Each archive has the objects of a
// cluster, the command lines, and what these print.
func TestScenarios(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "output", func(t *testing.T, archive *txtar.Archive) string {
		files := map[string]string{}
		for _, f := range archive.Files {
			files[f.Name] = string(f.Data)
		}
		var cluster fixture
		must.Do(t, yaml.UnmarshalStrict([]byte(files["cluster.yaml"]), &cluster))
		var out strings.Builder
		for line := range strings.Lines(files["commands"]) {
			line = strings.TrimSpace(line)
			fmt.Fprintf(&out, "$ %s\n", line)
			cluster.print(t, &out, strings.Fields(line)[1:])
		}
		return out.String()
	})
}

// fixture are the objects of a cluster as text.
type fixture struct {
	Time        time.Time               `json:"time"`
	Nodes       []*corev1.Node          `json:"nodes"`
	Pods        []*corev1.Pod           `json:"pods"`
	Leases      []*coordinationv1.Lease `json:"leases"`
	Topologies  []fixtureTopology       `json:"topologies"`
	DaemonSets  []*appsv1.DaemonSet     `json:"daemonSets"`
	Deployments []*appsv1.Deployment    `json:"deployments"`
	Unread      map[survey.Kind]string  `json:"unread"`
}

// fixtureTopology is a NodeTopology as its agent writes it, or damaged.
type fixtureTopology struct {
	Node     string                 `json:"node"`
	Owner    types.UID              `json:"owner"`
	Created  time.Time              `json:"created"`
	Shape    topology.Shape         `json:"shape"`
	Offline  cpuset.Set             `json:"offline"`
	Reserved cpuset.Set             `json:"reserved"`
	Lease    string                 `json:"lease"`
	Health   string                 `json:"health"`
	Damaged  bool                   `json:"damaged"`
	Findings []nodetopology.Finding `json:"findings"`
}

// allocated returns what agents have allocated: fixtures have it as an annotation of the pod.
func (f *fixture) allocated(node string) api.Allocations {
	all := api.Allocations{}
	for _, pod := range f.Pods {
		if a, err := api.DecodeAllocation(pod.Annotations["allocation"]); err == nil && pod.Spec.NodeName == node {
			all[pod.UID] = a
		}
	}
	return all
}

func (f *fixtureTopology) object(t *testing.T, allocated api.Allocations) *nodetopology.NodeTopology {
	machine := f.Shape.MustBuild().Without(f.Offline)
	state := nodetopology.State{ReservedCPUs: f.Reserved, KubeletPolicy: nodetopology.KubeletPolicyNone, AgentHealth: nodetopology.AgentHealthy, AgentLease: f.Lease, Allocations: allocated, Findings: f.Findings}
	if f.Health != "" {
		state.AgentHealth = f.Health
	}
	object := must.Get(nodetopology.FromMachine(f.Node, machine, state))(t)
	if f.Owner != "" {
		nodetopology.OwnedByNode(object, f.Owner)
	}
	if f.Damaged {
		object.Machine.Packages = ""
	}
	return object
}

// objects returns the objects of the cluster, or of one node.
func (f *fixture) objects(t *testing.T, node string) *survey.Objects {
	o := &survey.Objects{Time: f.Time, Node: node, Leases: f.Leases, DaemonSets: f.DaemonSets, Deployments: f.Deployments, LeaseNamespace: nodetopology.LeaseNamespace, Unread: map[survey.Kind]error{}}
	decoder := nodetopology.NewDecoder()
	for i := range f.Topologies {
		if topology := &f.Topologies[i]; node == "" || topology.Node == node {
			o.Topologies = append(o.Topologies, survey.Topology{Name: topology.Node, Created: topology.Created, Decoded: decoder.Decode(topology.object(t, f.allocated(topology.Node)))})
		}
	}
	for _, n := range f.Nodes {
		if node == "" || n.Name == node {
			o.Nodes = append(o.Nodes, n)
		}
	}
	for _, pod := range f.Pods {
		if node == "" || pod.Spec.NodeName == node {
			o.Pods = append(o.Pods, pod)
		}
	}
	for kind, message := range f.Unread {
		o.Unread[kind] = errors.New(message)
	}
	return o
}

// print prints what "pinfold status" prints for some arguments.
func (f *fixture) print(t *testing.T, out *strings.Builder, args []string) {
	o := &options{}
	options := text.Options{Map: report.MapOptions{}}
	for i, arg := range args {
		if i > 0 && args[i-1] == "-n" {
			continue
		}
		switch arg {
		case "status", "-o":
		case "json":
			o.output = "json"
		case "wide":
			o.output, options.Wide = wide, true
		case "--check":
			o.check = true
		case "--pods":
			o.pods = true
		case "-n":
			o.namespace = args[i+1]
		default:
			o.node = arg
		}
	}
	r := f.objects(t, o.node).Report()
	must.Do(t, o.print(out, r))
	if err := checkProblems(r); o.check && err != nil {
		fmt.Fprintln(out, err)
	}
}
