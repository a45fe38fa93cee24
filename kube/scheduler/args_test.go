package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

func TestParseArgs(t *testing.T) {
	n := func(n int) *int { return &n }
	args := func(a Args) Args {
		a.AgentGracePeriod, a.AgentLeaseNamespace = &metav1.Duration{Duration: 2 * time.Minute}, "pinfold-system"
		return a
	}
	defaults := args(Args{ScoringStrategy: LeastAllocated, MinSharedCPUs: n(1)})
	for _, test := range []struct {
		name, text string
		want       Args
		err        string // part of the message
	}{
		{name: "none", want: defaults},
		{name: "empty", text: "{}", want: defaults},
		{name: "json", text: `{"scoringStrategy":"MostAllocated","minSharedCPUs":0}`, want: args(Args{ScoringStrategy: MostAllocated, MinSharedCPUs: n(0)})},
		{name: "yaml", text: "scoringStrategy: LeastAllocated\nminSharedCPUs: 4\n", want: args(Args{ScoringStrategy: LeastAllocated, MinSharedCPUs: n(4)})},
		{name: "typed", text: `{"apiVersion":"pinfold.dev/v1alpha1","kind":"PinfoldArgs"}`,
			want: args(Args{APIVersion: "pinfold.dev/v1alpha1", Kind: "PinfoldArgs", ScoringStrategy: LeastAllocated, MinSharedCPUs: n(1)})},
		{name: "misspelt", text: `{"minSharedCpus":4}`, err: `unknown field "minSharedCpus"`},
		{name: "double", text: "minSharedCPUs: 4\nminSharedCPUs: 5\n", err: `"minSharedCPUs" already set`},
		{name: "wrong type", text: `{"minSharedCPUs":"four"}`, err: "it must not be a JSON string"},
		{name: "truncated", text: `{"minSharedCPUs":`, err: "pluginConfig"},
		{name: "strategy", text: `{"scoringStrategy":"Best"}`, err: `scoringStrategy "Best" is neither "LeastAllocated" nor "MostAllocated"`},
		{name: "negative", text: `{"minSharedCPUs":-1}`, err: "minSharedCPUs is -1; it must be 0 or more"},
		{name: "agents", text: "agentGracePeriod: 3m\nagentLeaseNamespace: kube-system\n",
			want: Args{ScoringStrategy: LeastAllocated, MinSharedCPUs: n(1), AgentGracePeriod: &metav1.Duration{Duration: 3 * time.Minute}, AgentLeaseNamespace: "kube-system"}},
		{name: "ceilings", text: "ceilings: {default: {exclusiveCPUs: {perPod: 2}}}", want: args(Args{ScoringStrategy: LeastAllocated, MinSharedCPUs: n(1),
			Ceilings: api.Ceilings{Default: api.Ceiling{ExclusiveCPUs: api.CPUCeiling{PerPod: n(2)}}}})},
		{name: "bad ceiling", text: "ceilings: {default: {exclusiveCPUs: {perPod: -2}}}", err: "ceilings: default.exclusiveCPUs.perPod -2: it must be 0 or more"},
		{name: "misspelt ceiling", text: "ceilings: {default: {exclusiveCpus: {perPod: 2}}}", err: "unknown field"},
		{name: "short grace", text: "agentGracePeriod: 10ms", err: "agentGracePeriod is 10ms; it must be 1s or more, or 0s for no limit"},
		{name: "version", text: `{"apiVersion":"v2","kind":"X"}`, err: `apiVersion "v2" is not known, only "pinfold.dev/v1alpha1" is`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var obj runtime.Object
			if test.text != "" {
				obj = &runtime.Unknown{Raw: []byte(test.text)}
			}
			got, err := parseArgs(obj)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "plugin Pinfold") {
					t.Fatalf("got error %v, want one about plugin Pinfold and %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The default configuration contains the plugin's own defaults.
func TestDefaultConfigurationArgs(t *testing.T) {
	var config struct {
		Profiles []struct {
			PluginConfig []struct {
				Name string
				Args map[string]any
			}
		}
	}
	must.Do(t, yaml.Unmarshal([]byte(DefaultConfiguration), &config))
	text := must.Get(yaml.Marshal(config.Profiles[0].PluginConfig[0].Args))(t)
	got := must.Get(parseArgs(&runtime.Unknown{Raw: text}))(t)
	want := must.Get(parseArgs(nil))(t)
	want.APIVersion, want.Kind = argsVersion, argsKind
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
