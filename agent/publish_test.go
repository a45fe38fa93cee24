package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// TestFewRequests counts what is asked of the API server, which thousands of agents ask: a change
// costs one write, and a small change of the batch capacity none.
func TestFewRequests(t *testing.T) {
	n := newQuietNode(t, colocation.Config{Threshold: 0.65, Floor: 0.5})
	n.round()
	w := makeWorld()
	w.t, w.config = t, n.Config
	o := w.options().withDefaults()
	o.APIEvery = time.Minute
	p := &publisher{Options: o, engine: n.engine, dedup: logdedup.New(o.Log, o.Now), wake: make(chan struct{}, 1)}
	offers := func(cpus quantity.CPUs) func() {
		return func() {
			n.with(func(*control.Control) {
				n.status.Batch.Decision = colocation.Decision{Budget: 1, Capacity: cpus}
			})
		}
	}
	hasPolicy := func(policy string) func() {
		return func() { n.setKubelet(control.Kubelet{CPUManagerPolicy: policy}) }
	}
	nothing := func() {}
	for _, step := range []struct {
		name   string
		change func()
		all    bool
		want   string
		err    string
	}{
		{"start", offers(4), true, "get nodes, patch nodes, patch nodes, get nodetopologies, create nodetopologies", ""},
		{"nothing", nothing, false, "", ""},
		{"a condition", func() {
			p.setCondition(corev1.NodeCondition{Type: nodetopology.BindingCondition, Status: corev1.ConditionTrue})
		}, false, "patch nodes", ""},
		{"the same condition", nothing, false, "", ""},
		{"a little more for batch pods", offers(4.1), false, "", ""},
		{"more, too soon", offers(4.3), false, "", ""},
		{"more, later", func() { p.offered = p.offered.Add(-offerEvery) }, false, "patch nodes", ""},
		{"less than what is requested", func() {
			p.offered = time.Time{}
			n.with(func(*control.Control) { n.status.Batch.Requested = 4301 })
		}, false, "patch nodes", ""},
		{"a look at what others change", nothing, true, "get nodes, get nodetopologies", ""},
		{"a kubelet", hasPolicy("static"), false, "update nodetopologies", ""},
		{"an object that was deleted", func() {
			if err := w.topologies.Delete(t.Context(), nodeName, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			hasPolicy("none")()
		}, false, "update nodetopologies", "not found"},
		{"its next version", nothing, true, "get nodes, get nodetopologies, create nodetopologies", ""},
	} {
		step.change()
		w.client.ClearActions()
		w.topologies.ClearActions()
		err := p.once(t.Context(), step.all)
		var requests []string
		for _, action := range slices.Concat(w.client.Actions(), w.topologies.Actions()) {
			requests = append(requests, action.GetVerb()+" "+action.GetResource().Resource)
		}
		if got := strings.Join(requests, ", "); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
		if (err == nil) != (step.err == "") || err != nil && !strings.Contains(err.Error(), step.err) {
			t.Errorf("%s: %v, want %q", step.name, err, step.err)
		}
	}
}

// TestRetries: while the API server does not answer, agents ask it less and less often, about twice a
// minute in the end, and not in step with each other.
func TestRetries(t *testing.T) {
	asked := make([][]time.Duration, 2)
	for i := range asked {
		synctest.Test(t, func(t *testing.T) {
			w := makeWorld()
			w.t = t
			o := w.options()
			o.APIEvery, o.RetryAfter = 0, 0
			o = o.withDefaults()
			n := newQuietNode(t, colocation.Config{})
			begun := time.Now()
			w.client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked[i] = append(asked[i], time.Since(begun))
				return true, nil, errors.New("no answer")
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			(&publisher{Options: o, engine: n.engine, dedup: logdedup.New(o.Log, o.Now), wake: make(chan struct{}, 1)}).loop(ctx)
		})
	}
	for _, times := range asked {
		if n := len(times); n < 12 || n > 26 {
			t.Errorf("it asks %d times in ten minutes, at %v", n, times)
		}
	}
	same := 0
	for i := range min(len(asked[0]), len(asked[1])) {
		if (asked[0][i] - asked[1][i]).Abs() < 10*time.Millisecond {
			same++
		}
	}
	if same > 3 { // the first
		t.Errorf("two agents ask at the same time %d times, at %v and %v", same, asked[0], asked[1])
	}
}
