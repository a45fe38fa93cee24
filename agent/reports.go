package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
)

// reports passes on what follows from decisions to the log, events, the node's condition and
// metrics.
type reports struct {
	Options
	dedup     *logdedup.Log
	events    func(control.Notice) // creates an event
	condition func(corev1.NodeCondition)
	// refresh requests that the Node object is brought up to date, and the kubelet asked.
	refresh func()

	mu       sync.Mutex
	stats    stats
	findings []nodetopology.Finding // to be published
	kept     []keptFinding          // which no later report repeats
}

// keptFinding is a finding about a container of a pod.
type keptFinding struct {
	container string // its ID
	nodetopology.Finding
}

// stats are the source of metrics.
type stats struct {
	summary      control.Summary
	pending      []control.Pending
	holding      bool
	rounds       uint64
	undone, left map[control.Field]uint64 // foreign changes
	failed       int                      // cgroups
	connected    bool                     // to the container runtime
	nriConflicts uint64                   // containers that another NRI plugin sets too
	moves        uint64                   // of running pods to better CPUs
}

func newReports(o Options) *reports {
	return &reports{Options: o, dedup: logdedup.New(o.Log, o.Now), events: func(control.Notice) {}, condition: func(corev1.NodeCondition) {}, refresh: func() {},
		stats: stats{undone: map[control.Field]uint64{}, left: map[control.Field]uint64{}}}
}

// update changes the stats.
func (r *reports) update(f func(*stats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.stats)
}

// get returns a copy of the stats.
func (r *reports) get() (s stats) {
	r.update(func(now *stats) {
		s = *now
		s.undone, s.left = maps.Clone(s.undone), maps.Clone(s.left)
	})
	return s
}

// hold reports why nothing is changed; "" if decisions are enforced.
func (r *reports) hold(why string) {
	r.update(func(s *stats) { s.holding = why != "" })
	if why != "" {
		r.dedup.Info("hold", "nothing is changed for now: "+why)
	} else {
		r.dedup.Clear("hold")
	}
}

// fail reports a round that could not observe the cgroups.
func (r *reports) fail(report control.Report) {
	r.update(func(s *stats) { s.holding = true })
	r.publish(report)
}

// ready returns an error while decisions are not enforced.
func (r *reports) ready() error {
	s := r.get()
	switch {
	case s.rounds == 0:
		return errors.New("no round has been done yet")
	case s.holding:
		return errors.New("nothing is changed for now: see the log or the node's condition " + string(nodetopology.BindingCondition))
	}
	return nil
}

// logChanges logs and counts the changes by other writers, and what was written.
func (r *reports) logChanges(d control.Decision, result control.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.pending = d.Pending
	for _, f := range d.Foreign {
		count := r.stats.undone
		if f.Left {
			count = r.stats.left
		}
		count[f.Field]++
		r.dedup.Info("foreign "+f.Path+" "+string(f.Field), f.String())
	}
	for _, w := range result.Written {
		r.Log.Debug("wrote", "group", w.Path, "file", string(w.File), "value", w.Value)
	}
	r.stats.failed = 0
	for path, err := range result.Failed {
		if errors.Is(err, cgroup.ErrGone) {
			continue // it has ended meanwhile
		}
		r.stats.failed++
		if r.dedup.Fresh("write "+path, err.Error()) { // a notice of control, too
			r.Log.Warn("cannot apply the settings of a control group", "error", err)
		}
	}
}

// standing returns the warnings that stand as notices about the node.
func (r *reports) standing() []control.Notice {
	all := []control.Notice{}
	for about, text := range r.dedup.Standing() {
		n := control.Notice{Reason: groups.Impaired, Message: text}
		switch about {
		case "claims", "features":
			n.Reason = groups.ClaimsNotServed
		case "given":
			n.Reason = groups.CannotSave
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b control.Notice) int {
		return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return all
}

// findings returns what is to be published besides the condition, what matters most first.
func findings(s *control.Summary, kept []keptFinding) (all []nodetopology.Finding) {
	add := func(severity status.Severity, notices []control.Notice) {
		for _, n := range notices {
			all = append(all, finding(severity, n))
		}
	}
	isNews := func(n control.Notice) bool { return n.IsNews() }
	add(status.Warning, s.Impaired)
	add(status.Warning, s.Warnings)
	add(status.Warning, slices.DeleteFunc(slices.Clone(s.News), isNews))
	for _, k := range kept {
		all = append(all, k.Finding)
	}
	add(status.Note, s.Notes)
	add(status.Note, s.PodNotes)
	return all
}

func finding(severity status.Severity, n control.Notice) nodetopology.Finding {
	f := nodetopology.Finding{Severity: string(severity), Reason: n.Reason, Message: n.Message}
	if n.Pod != nil {
		f.Pod = n.Pod.UID
	}
	return f
}

// keep publishes a warning about a container from the next report on, in place of an earlier one, and forgets
// those of pods that are not known any more.
func (r *reports) keep(container string, n control.Notice, known func(types.UID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = slices.DeleteFunc(r.kept, func(k keptFinding) bool { return k.container == container || !known(k.Pod) })
	r.kept = append(r.kept, keptFinding{container, finding(status.Warning, n)})
}

// publish passes a report on to metrics, log, events, the node's condition and its topology object.
func (r *reports) publish(report control.Report) {
	var changed bool
	r.update(func(s *stats) {
		s.summary = report.Summary
		found := findings(&report.Summary, r.kept)
		changed, r.findings = !slices.Equal(found, r.findings), found
	})
	if changed {
		r.refresh()
	}
	for _, n := range report.Events {
		if n.Reason == groups.Moved {
			r.update(func(s *stats) { s.moves++ })
		}
		r.warn(n)
	}
	r.condition(report.Condition)
}

// warn logs a notice and creates its event.
func (r *reports) warn(n control.Notice) {
	level := slog.LevelWarn
	if n.IsNews() {
		level = slog.LevelInfo
	}
	r.Log.Log(context.Background(), level, n.Message, "reason", n.Reason)
	r.events(n)
}

// maxEvent is the length after which the message of an event is cut, in bytes. A message may name
// every container of a pod.
const maxEvent = 1024

// recordEvents creates events on the pods and the node that notices are about.
func (r *reports) recordEvents() (stop func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: r.Client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "pinfold-agent", Host: r.NodeName})
	// kubectl finds the events of a node by its name in place of the UID, as the kubelet writes
	// them.
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.NodeName, UID: types.UID(r.NodeName)}
	r.events = func(n control.Notice) {
		message, kind := api.Shorten(n.Message, maxEvent), corev1.EventTypeWarning
		if n.IsNews() {
			kind = corev1.EventTypeNormal
		}
		if n.Pod != nil {
			recorder.Event(n.Pod, kind, n.Reason, message)
		} else {
			recorder.Event(about, kind, n.Reason, message)
		}
	}
	return broadcaster.Shutdown
}
