package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/terminal"
	"pinfold.dev/pinfold/report/top"
	"pinfold.dev/pinfold/tracefile"
)

// Bounds of a table of several nodes.
const (
	nodesAtOnce = 32
	nodeTime    = 20 * time.Second // for the answer of a node
	nodeErrors  = 5                // that are shown
)

// everywhere is a table of the containers of several nodes.
type everywhere struct {
	namespace string // of the containers; "" for all

	mu    sync.Mutex
	model *top.Model
	names map[string]string // of groups
	waits map[string]*waits // of groups
	ended bool              // the table is drawn
}

func newEverywhere(namespace string, model *top.Model) *everywhere {
	return &everywhere{namespace: namespace, model: model, names: map[string]string{}, waits: map[string]*waits{}}
}

// waits is for how long a group waited.
type waits struct {
	waited, of time.Duration
	known      bool
}

// topEverywhere samples the containers of all nodes with agents for a second, and prints a table.
func (o *podOptions) topEverywhere(ctx context.Context, cmd *cobra.Command, model *top.Model, flags []string) error {
	s, err := o.connect()
	if err != nil {
		return err
	}
	agents, err := s.agents(ctx, o.agentNamespace, fields.Everything())
	if err != nil {
		return Explain(ctx, s.config.Host, fmt.Errorf("look for agents in namespace %s: %w", o.agentNamespace, err))
	}
	agents = slices.DeleteFunc(agents, func(p corev1.Pod) bool { return agentContainer(&p) == nil })
	if len(agents) == 0 {
		return fmt.Errorf("no agent runs in namespace %s: --agent-namespace names another one; without agents, 'kubectl pinfold top --node NODE' starts a pod on a node", o.agentNamespace)
	}
	e := newEverywhere(o.namespace, model)
	silent := e.ask(ctx, s, agents, flags)
	if e.draw(cmd.OutOrStdout()); len(e.names) == 0 {
		frame.Notef(cmd.ErrOrStderr(), "no such containers on %s", quantity.Count(len(agents)-len(silent), "node"))
	}
	for _, line := range silent[:min(len(silent), nodeErrors)] {
		frame.Notef(cmd.ErrOrStderr(), "%s", line)
	}
	if more := len(silent) - nodeErrors; more > 0 {
		frame.Notef(cmd.ErrOrStderr(), "and %s more", quantity.Count(more, "node"))
	}
	if without := s.countNodes(ctx) - len(agents); without > 0 {
		frame.Notef(cmd.ErrOrStderr(), "%s without an agent are not shown: 'kubectl pinfold top --node NODE' starts a pod on one", quantity.Count(without, "node"))
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case len(silent) > 0:
		return fmt.Errorf("%d of %s did not answer", len(silent), quantity.Count(len(agents), "node"))
	}
	return nil
}

// countNodes returns the number of nodes, 0 if it is unknown.
func (s *session) countNodes(ctx context.Context) int {
	list := &corev1.NodeList{}
	err := s.pods.Get().Resource("nodes").VersionedParams(&metav1.ListOptions{Limit: 1}, s.parameters).Do(ctx).Into(list)
	if err != nil {
		return 0
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n
}

// ask adds the samples of all nodes, and returns why some are missing.
func (e *everywhere) ask(ctx context.Context, s *session, agents []corev1.Pod, flags []string) (silent []string) {
	failed := make([]error, len(agents))
	var all errgroup.Group
	all.SetLimit(nodesAtOnce)
	for i := range agents {
		all.Go(func() error {
			one := *s
			one.node, one.agent, one.container = agents[i].Spec.NodeName, &agents[i], agentContainer(&agents[i])
			failed[i] = e.askNode(ctx, &one, flags)
			return nil
		})
	}
	_ = all.Wait() // the errors are in failed
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
	for i, err := range failed {
		if err != nil {
			silent = append(silent, fmt.Sprintf("node %s: %v", agents[i].Spec.NodeName, err))
		}
	}
	return silent
}

// askNode adds the samples of a node. It waits for nodeTime at most, and for endTime until that has ended.
func (e *everywhere) askNode(ctx context.Context, s *session, flags []string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, nodeTime, fmt.Errorf("no answer for %v", nodeTime))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		var messages bytes.Buffer
		err := s.piped(ctx, cancel, "top", append(slices.Clone(flags), "--journal"), strings.NewReader(""), &messages,
			func(in io.Reader) error { return e.add(s.node, in) })
		if first, _, _ := strings.Cut(strings.TrimSpace(messages.String()), "\n"); err != nil && first != "" {
			err = errors.New(strings.TrimPrefix(first, "pinfold: "))
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(endTime): // its input has ended, so it should have
		return context.Cause(ctx)
	}
}

// add adds the samples in a node's journal.
func (e *everywhere) add(node string, journal io.Reader) error {
	_, err := tracefile.Replay(journal, func(tracefile.Header) (tracefile.Recorder, error) { return nodeRecorder{e, node}, nil })
	return err
}

// draw draws the table.
func (e *everywhere) draw(out io.Writer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.model.Next = e.next
	e.model.Rename(func(group string) string { return e.names[group] })
	e.model.SetWaits(func(group string) (share float64, known bool) {
		w := e.waits[group]
		return float64(w.waited) / float64(max(1, w.of)), w.known
	})
	_, _ = io.WriteString(out, e.model.Draw(top.Size{Width: terminal.MapOptions(out, os.Getenv).Width}))
}

// next returns the command line that says why a group is throttled.
func (e *everywhere) next(worst top.Worst) string {
	pod := strings.Split(e.names[worst.Group], "/")
	if node, _, _ := strings.Cut(worst.Group, ":"); len(pod) != 3 {
		return worst.Because("kubectl pinfold top --node " + node)
	}
	return worst.Because(fmt.Sprintf("kubectl pinfold why %s -n %s", pod[1], pod[0]))
}

// nodeRecorder adds the samples of a node to the table.
type nodeRecorder struct {
	*everywhere
	node string
}

// Append implements [tracefile.Recorder].
func (r nodeRecorder) Append(row *tracefile.Row) error {
	if r.namespace != "" && !strings.HasPrefix(row.Name, r.namespace+"/") {
		return nil
	}
	group := r.node + ":" + row.Group // no name of a node has a colon
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return context.Canceled
	}
	r.model.Add(group, row.Sample)
	if r.names[group] = cmp.Or(row.Name, group); r.waits[group] == nil {
		r.waits[group] = &waits{}
	}
	w := r.waits[group]
	w.waited, w.of = w.waited+row.Waited, w.of+row.Interval
	w.known = w.known || !row.Unknown.Has(trace.Waits)
	return nil
}

// AppendSpan implements [tracefile.Recorder]. There are no spans.
func (nodeRecorder) AppendSpan(*trace.Span) error { return nil }

// Finish implements [tracefile.Recorder].
func (nodeRecorder) Finish() (c tracefile.Converted, err error) { return c, nil }
