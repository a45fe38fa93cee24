package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"

	"pinfold.dev/pinfold/kube/scheduler"
)

// merged is what becomes of the configuration in testdata/scheduler-config.txtar.
const merged = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 32
percentageOfNodesToScore: 50
clientConnection: {qps: 200, burst: 400}
leaderElection: {leaderElect: true, resourceLock: leases, resourceNamespace: pinfold-system, resourceName: pinfold-scheduler, leaseDuration: 30s}
extenders: [{urlPrefix: "https://extender.example.com", filterVerb: filter}]
profiles:
- schedulerName: pinfold-scheduler
  plugins:
    multiPoint: {enabled: [{name: NodeResourcesFit, weight: 5}, {name: Pinfold, weight: 30}], disabled: [{name: ImageLocality}]}
    filter:
      enabled: [{name: NodeUnschedulable}, {name: NodeName}, {name: TaintToleration}, {name: Pinfold}, {name: NodePorts}]
      disabled: [{name: NodeAffinity}]
    postFilter: {disabled: [{name: "*"}]}
    bind: {disabled: [{name: DefaultBinder}]}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}
  - {name: Pinfold, args: {apiVersion: pinfold.dev/v1alpha1, kind: PinfoldArgs, scoringStrategy: LeastAllocated, minSharedCPUs: 2, agentGracePeriod: 40s, agentLeaseNamespace: pinfold-system}}
- schedulerName: few-plugins
  percentageOfNodesToScore: 100
  plugins:
    multiPoint: {enabled: [{name: NodeName}, {name: PrioritySort}, {name: Pinfold, weight: 30}], disabled: [{name: "*"}]}
    filter: {enabled: [{name: NodeName}, {name: Pinfold}]}
    bind: {disabled: [{name: DefaultBinder}]}
  pluginConfig:
  - {name: Pinfold, args: {apiVersion: pinfold.dev/v1alpha1, kind: PinfoldArgs, scoringStrategy: LeastAllocated, minSharedCPUs: 2, agentGracePeriod: 40s, agentLeaseNamespace: pinfold-system}}
`

// TestMergedConfiguration decodes a merged configuration as kube-scheduler does.
func TestMergedConfiguration(t *testing.T) {
	rendered := find[*corev1.ConfigMap](t, render(t, allValues(t)["scheduler-config"]), "pinfold-scheduler").Data["scheduler.yaml"]
	want, got := decodeConfiguration(t, merged), decodeConfiguration(t, rendered)
	for i := range got.Profiles {
		if diff := cmp.Diff(string(schedulerArgs(t, want, i)), string(schedulerArgs(t, got, i))); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		for _, c := range []*config.KubeSchedulerConfiguration{want, got} { // their text differs
			c.Profiles[i].PluginConfig = c.Profiles[i].PluginConfig[:len(c.Profiles[i].PluginConfig)-1]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestExtensionPoints checks that the chart knows all extension points of the plugin: preFilter,
// filter, score, reserve and bind.
func TestExtensionPoints(t *testing.T) {
	var plugin any = (*scheduler.Plugin)(nil)
	for name, is := range map[string]bool{
		"preEnqueue": implements[fwk.PreEnqueuePlugin](plugin), "queueSort": implements[fwk.QueueSortPlugin](plugin),
		"postFilter": implements[fwk.PostFilterPlugin](plugin), "preScore": implements[fwk.PreScorePlugin](plugin),
		"permit": implements[fwk.PermitPlugin](plugin), "preBind": implements[fwk.PreBindPlugin](plugin), "postBind": implements[fwk.PostBindPlugin](plugin),
	} {
		if is {
			t.Errorf("the plugin has the extension point %s: add it to pinfold.profile in templates/_config.tpl", name)
		}
	}
}

func implements[T any](plugin any) bool {
	_, ok := plugin.(T)
	return ok
}

// decodeConfiguration decodes a configuration as kube-scheduler does, without unknown fields.
func decodeConfiguration(t *testing.T, text string) *config.KubeSchedulerConfiguration {
	t.Helper()
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	c := object.(*config.KubeSchedulerConfiguration)
	c.APIVersion = kind.GroupVersion().String()
	return c
}
