package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/kube/survey"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// TestShown checks that "pinfold status" shows what test/documents/testdata/shown.txt says of the agent's
// reasons and of warnings that stand.
func TestShown(t *testing.T) {
	place, tried := "", 0
	for line := range strings.Lines(string(must.Get(os.ReadFile("../test/documents/testdata/shown.txt"))(t))) {
		text := strings.TrimSpace(line)
		if text == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.HasPrefix(line, " ") {
			place = text
			continue
		}
		for _, want := range shownAs(place, text) {
			tried++
			if report := want.report(t); !want.in(report) {
				t.Errorf("%s as %s: status does not show it: %+v", text, place, report.Problems)
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d messages were tried", tried)
	}
}

// shown is a state of a node, and what must be shown of it.
type shown struct {
	status.Problem
	state control.Report
}

// shownAs returns the states in which a reason or warning must be shown at a place.
func shownAs(place, text string) []shown {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web"}}
	ofPod, ofNode := []control.Notice{{Pod: pod, Reason: text, Message: "why"}}, []control.Notice{{Reason: text, Message: "why"}}
	one := func(kind string, severity status.Severity, of string, s control.Summary) shown {
		return shown{status.Problem{Kind: status.Kind(kind), Severity: severity, Pod: of, Message: "why"}, control.Report{Summary: s}}
	}
	switch about := ""; place {
	case "condition":
		c := corev1.NodeCondition{Type: nodetopology.BindingCondition, Status: corev1.ConditionFalse, Reason: text, Message: "why"}
		return []shown{{status.Problem{Kind: status.NotEnforced, Severity: status.Error, Message: "why"}, control.Report{Condition: c}}}
	case "warning":
		return []shown{one(text, status.Warning, "shop/web", control.Summary{Warnings: ofPod}), one(text, status.Warning, "shop/web", control.Summary{News: ofPod}),
			one(text, status.Warning, "", control.Summary{Impaired: ofNode})}
	case "note":
		return []shown{one(text, status.Note, "shop/web", control.Summary{PodNotes: ofPod}), one(text, status.Note, "", control.Summary{Notes: ofNode})}
	case "CannotSave":
		about = "given"
		fallthrough
	case "ClaimsNotServed":
		if about == "" {
			about = "claims"
		}
		fallthrough
	case "AgentImpaired":
		r := newReports(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
		r.dedup.WarnOrClear(about, text, errors.New("why"))
		c := control.New(control.Config{NodeName: nodeName})
		c.Step(control.Event{Standing: r.standing()})
		kind, severity := status.NotEnforced, status.Error
		if place == "AgentImpaired" {
			kind, severity = status.AgentImpaired, status.Warning
		}
		return []shown{{status.Problem{Kind: kind, Severity: severity, Message: text + ": why"}, c.Failed(errors.New("no groups")).Report}}
	}
	return nil
}

// report returns what is shown of the state, by what the agent publishes of it.
func (s shown) report(t *testing.T) *status.Report {
	state := nodetopology.State{AgentHealth: nodetopology.AgentHealthy, Findings: findings(&s.state.Summary, nil)}
	object := must.Get(nodetopology.FromMachine(nodeName, topology.Shape{CoresPerLLC: 4}.MustBuild(), state))(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	node.Status.Conditions = []corev1.NodeCondition{s.state.Condition}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web"}, Spec: corev1.PodSpec{NodeName: nodeName}}
	objects := survey.Objects{Nodes: []*corev1.Node{node}, Pods: []*corev1.Pod{pod},
		Topologies: []survey.Topology{{Name: nodeName, Decoded: nodetopology.NewDecoder().Decode(object)}}}
	return objects.Report()
}

func (s shown) in(r *status.Report) bool {
	for _, p := range r.Problems {
		if p.Kind == s.Kind && p.Severity == s.Severity && p.Pod == s.Pod && p.Node == nodeName && strings.Contains(p.Message, s.Message) {
			return true
		}
	}
	return false
}

// TestImpaired: while something of the agent does not work, condition and topology object say so.
func TestImpaired(t *testing.T) {
	w := newWorld(t)
	w.root = newTree(t).root
	w.start()
	says := func(want bool) func() error {
		return func() error {
			object, err := w.topologies.Get(t.Context(), nodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			node := must.Get(w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{}))(t)
			const what = "the kubelet is away"
			var condition, found bool
			for _, c := range node.Status.Conditions {
				condition = condition || strings.Contains(c.Message, what) && c.Status == corev1.ConditionTrue
			}
			for _, f := range object.Status.Findings {
				found = found || f.Reason == string(status.AgentImpaired) && strings.Contains(f.Message, what)
			}
			if condition != want || found != want {
				return errors.New("conditions and findings are others")
			}
			return nil
		}
	}
	wait.Until(t, "nothing is wrong", says(false))
	w.mu.Lock()
	w.kubeletErr = errors.New("the kubelet is away")
	w.mu.Unlock()
	wait.Until(t, "the agent says that the kubelet does not answer", says(true))
	w.mu.Lock()
	w.kubeletErr = nil
	w.mu.Unlock()
	wait.Until(t, "the agent says that nothing is wrong", says(false))
}

// TestConflict: a container that another NRI plugin sets, too, is a finding about its pod, once, and until another
// conflict is found after the pod's end.
func TestConflict(t *testing.T) {
	w := newWorld(t, newPod("web"), newPod("other"))
	w.root = newTree(t).root
	conflicts := make(chan nri.Conflict)
	w.runtime = func(ctx context.Context, o nri.Options, _ nri.Handler) {
		for {
			select {
			case <-ctx.Done():
				return
			case c := <-conflicts:
				o.OnConflict(c)
			}
		}
	}
	w.start()
	w.eventually(w.ready)
	found := func(name string) func() error {
		return func() error {
			conflicts <- nri.Conflict{Pod: nri.Pod{UID: ledger.PodID("uid-" + name), Name: name}, Container: nri.Container{ID: name, Name: "app"}, Reason: "why"}
			object, err := w.topologies.Get(t.Context(), nodeName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			var pods []types.UID
			for _, f := range object.Status.Findings {
				if f.Reason == "NRIConflict" && strings.Contains(f.Message, "container app of pod") {
					pods = append(pods, f.Pod)
				}
			}
			if !slices.Equal(pods, []types.UID{types.UID("uid-" + name)}) {
				return fmt.Errorf("findings about %q, want one about %s", pods, name)
			}
			return w.told(name, "NRIConflict", "why")
		}
	}
	w.eventually(found("web"))
	must.Do(t, w.client.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.eventually(found("other"))
}
