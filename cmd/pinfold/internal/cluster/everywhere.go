package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

// topEverywhere samples the containers of all nodes with agents for a second, and prints a table. Without
// any agent, and with --debug, also those of the other nodes, in pods of its own.
func (o *podOptions) topEverywhere(ctx context.Context, cmd *cobra.Command, model *top.Model, flags []string) error {
	s, err := o.connect()
	if err != nil {
		return err
	}
	agents, err := s.agents(ctx, o.agentNamespace, fields.Everything())
	if err != nil {
		return Explain(ctx, s.config.Host, fmt.Errorf("look for agents in namespace %s: %w", o.agentNamespace, err))
	}
	var all []*session
	for i := range agents {
		if container := agentContainer(&agents[i]); container != nil {
			one := *s
			one.node, one.agent, one.container = agents[i].Spec.NodeName, &agents[i], container
			all = append(all, &one)
		}
	}
	others, without, err := o.others(ctx, cmd, s, all)
	if err != nil {
		return err
	}
	all = append(all, others...)
	e := newEverywhere(o.namespace, model)
	silent := e.ask(ctx, all, flags)
	e.draw(cmd.OutOrStdout())
	if answered := len(all) - len(silent); answered > 0 && len(e.names) == 0 {
		frame.Notef(cmd.ErrOrStderr(), "no such containers on %s", quantity.Count(answered, "node"))
	}
	for _, line := range silent[:min(len(silent), nodeErrors)] {
		frame.Notef(cmd.ErrOrStderr(), "%s", line)
	}
	if more := len(silent) - nodeErrors; more > 0 {
		frame.Notef(cmd.ErrOrStderr(), "and %s more", quantity.Count(more, "node"))
	}
	if without > 0 {
		frame.Notef(cmd.ErrOrStderr(), "not shown: %s without an agent; --debug starts pods there", quantity.Count(without, "node"))
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case len(silent) > 0:
		return fmt.Errorf("%d of %s did not answer", len(silent), quantity.Count(len(all), "node"))
	}
	return nil
}

// others returns sessions in pods of their own on the nodes that have no agent, if the user allows that, and else
// how many nodes these are. Without any agent, no permission is an error.
func (o *podOptions) others(ctx context.Context, cmd *cobra.Command, s *session, agents []*session) (all []*session, without int, err error) {
	nodes, err := s.nodeNames(ctx)
	var names []string
	for _, name := range nodes {
		if !slices.ContainsFunc(agents, func(a *session) bool { return a.node == name }) {
			names = append(names, name)
		}
	}
	if len(agents) > 0 && (!s.debug.debug || len(names) == 0) {
		return nil, len(names), nil // an error says nothing about those with agents
	}
	why := fmt.Errorf("no agent runs in namespace %s: --agent-namespace names another one", o.agentNamespace)
	switch {
	case err != nil:
		return nil, 0, Explain(ctx, s.config.Host, fmt.Errorf("list nodes: %w", err))
	case len(names) > nodesAtOnce:
		return nil, 0, fmt.Errorf("%s have no agent, and pods are started on %d at most: 'kubectl pinfold top --node NODE' starts one", quantity.Count(len(names), "node"), nodesAtOnce)
	case len(names) == 0:
		return nil, 0, errors.New("the cluster has no nodes")
	}
	s.findImage(ctx, o.agentNamespace)
	if err := s.mayDebug(cmd, why, names...); err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		one := *s
		one.node = name
		all = append(all, &one)
	}
	return all, 0, nil
}

// nodeNames returns the names of the nodes that may run the pods. Nothing else is read of them: a Node is large.
func (s *session) nodeNames(ctx context.Context) (names []string, err error) {
	options := &metav1.ListOptions{LabelSelector: corev1.LabelOSStable + "!=windows"}
	text, err := s.pods.Get().Resource("nodes").VersionedParams(options, s.parameters).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").DoRaw(ctx)
	list := metav1.PartialObjectMetadataList{}
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}

// ask adds the samples of all nodes, and returns why some are missing.
func (e *everywhere) ask(ctx context.Context, all []*session, flags []string) (silent []string) {
	failed := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(nodesAtOnce)
	for i, s := range all {
		group.Go(func() error {
			failed[i] = e.askNode(ctx, s, flags)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
	for i, err := range failed {
		if err != nil {
			silent = append(silent, fmt.Sprintf("node %s: %v", all[i].node, err))
		}
	}
	return silent
}

// askNode adds the samples of a node. It waits for nodeTime at most, and a pod of its own for startTime
// before; and for endTime until that has ended.
func (e *everywhere) askNode(ctx context.Context, s *session, flags []string) error {
	limit := nodeTime
	if s.agent == nil {
		limit += startTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer for %v", limit))
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
	if r.namespace != "" && !strings.HasPrefix(row.Name, r.namespace+"/") || strings.Contains(row.Name, "/"+debugName+"-") {
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
