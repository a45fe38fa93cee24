package experiment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

// Version is the version of the format of [Config].
const Version = 1

// Config is an experiment.
type Config struct {
	Version  int    `json:"version"`
	Name     string `json:"name"`
	Question string `json:"question"`
	// Source is the title of the document that describes the experiment.
	Source string `json:"source"`
	// CPUs is how many the machine of the document had, see [Amount]. 0: amounts are not scaled.
	CPUs int `json:"cpus,omitempty"`
	// Least is how many CPUs a machine needs at least; 0: any number will do.
	Least int `json:"leastCPUs,omitempty"`

	Rounds int `json:"rounds"`
	// Most replaces Rounds, if it is not 0: the experiment ends earlier if more rounds would not change what
	// it says, see [Result.Concluded].
	Most     int            `json:"most,omitempty"`
	Window   Duration       `json:"window"`   // of one measurement
	Settle   Duration       `json:"settle"`   // from the start of the programs to the measurement, under load
	Foreign  quantity.Share `json:"foreign"`  // use of the CPUs by others that disturbs a window
	Repeated int            `json:"repeated"` // how often a disturbed window is measured again
	Seed     uint64         `json:"seed"`     // of the order of windows, and of the loads
	Quick    Quick          `json:"quick"`

	// Services run at the same time. Latencies, usage and throttling are those of the first.
	Services   []Service   `json:"services"`
	Loads      []Load      `json:"loads,omitempty"`
	Conditions []Condition `json:"conditions"`

	// Figures are those of tables, in this order.
	Figures   []Figure    `json:"figures"`
	Answers   []Answer    `json:"answers"`
	Published []Published `json:"published"`
	// NoDifference is the largest ratio that counts as no difference; 0: 1.05. Its inverse is the smallest.
	NoDifference float64 `json:"margin,omitempty"`
	// Notes say what differs from the document, and what this machine cannot show.
	Notes []string `json:"notes,omitempty"`
}

// Margin is the largest ratio that counts as no difference.
func (c Config) Margin() float64 { return cmp.Or(c.NoDifference, 1.05) }

// Quick has the values of a quick run.
type Quick struct {
	Rounds int      `json:"rounds"`
	Window Duration `json:"window"`
}

// Program is what a service runs.
type Program string

// The programs. Nginx, Httpd and FFmpeg have a built-in replacement.
const (
	Web    Program = "web"    // a web server
	Cycles Program = "cycles" // computes on several threads, and then sleeps
	Batch  Program = "batch"  // computes on several threads
	Demand Program = "demand" // computes on several threads for a random time in each period of 100 ms
	Pi     Program = "pi"     // computes digits of pi on several threads, and ends
	Nginx  Program = "nginx"
	Httpd  Program = "httpd"
	FFmpeg Program = "ffmpeg"
)

// Service is a program, with the settings of the control group in which it runs.
type Service struct {
	Name    string  `json:"name"`
	Program Program `json:"program"`
	// Replicas is how many run, each in a group of its own; 0: one.
	Replicas int `json:"replicas,omitempty"`
	// Stopped is whether the service does not run.
	Stopped bool `json:"stopped,omitempty"`
	// Chain makes each replica of a web server call the next before it answers.
	Chain bool `json:"chain,omitempty"`
	// Threads is how many compute at the same time, or the workers of a server.
	Threads Amount `json:"threads,omitzero"`
	// Compute and Sleep are the parts of a cycle.
	Compute Duration `json:"compute,omitzero"`
	Sleep   Duration `json:"sleep,omitzero"`
	// Use is the mean demand of "demand", as a share of the CPUs.
	Use quantity.Share `json:"use,omitempty"`
	// Request is what a server does for each request.
	Request Request `json:"request,omitzero"`
	// Digits of pi.
	Digits int `json:"digits,omitempty"`

	Limit  Amount         `json:"limit,omitzero"`  // CPUs; 0: none
	Period Duration       `json:"period,omitzero"` // of the limit; 0: 100 ms
	Burst  quantity.Share `json:"burst,omitempty"` // of the quota
	// Raise raises the quota while the service needs it and has saved CPU time, as the agent does.
	Raise bool `json:"raise,omitempty"`
	// Policy gives the service CPUs of its own ("static"), or the CPUs of as few NUMA nodes as
	// possible ("static-burst"), as many as its limit. Without a policy, it uses shared CPUs.
	Policy placement.Policy `json:"policy,omitempty"`
	// Priority puts the service behind the others. Otherwise all have the same.
	Priority Priority `json:"priority,omitempty"`
	// Budget is how much of the CPUs everything together should use, by a quota on this service.
	Budget quantity.Share `json:"budget,omitempty"`
	// CPUs is how many CPUs it may run on; 0: all.
	CPUs Amount `json:"cpus,omitzero"`
}

// Request is the work of a request. A server does one of these.
type Request struct {
	CPU  Duration `json:"cpu,omitzero"`   // CPU time
	Hash int      `json:"hash,omitempty"` // bytes to hash, which takes longer if caches or cores are shared
}

// Priority is a priority, see [Service.Priority]. All but Least have the names of the agent's
// mechanisms.
type Priority string

// The priorities, besides the zero value.
const (
	Least          Priority = "least"                             // the least weight
	Idle                    = Priority(colocation.Idle)           // cpu.idle
	CoreScheduling          = Priority(colocation.CoreScheduling) // with Idle
	SchedExt                = Priority(colocation.SchedExt)       // with Idle
	GroupIdentity           = Priority(colocation.BVT)            // and all other services are before others
)

// Priorities returns all priorities, besides the zero value.
func Priorities() []Priority { return []Priority{Least, Idle, CoreScheduling, SchedExt, GroupIdentity} }

// OfNode reports whether a priority is a setting of the node, not of a pod. Few kernels have all of
// these.
func (p Priority) OfNode() bool { return p == CoreScheduling || p == SchedExt || p == GroupIdentity }

// Count returns how many replicas of a service run.
func (s Service) Count() int {
	if s.Stopped {
		return 0
	}
	return max(1, s.Replicas)
}

// Limits returns the bandwidth settings of a service, whose amounts are those of this machine.
func (s Service) Limits() bandwidth.Limits {
	l := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: cmp.Or(s.Period.Duration, trace.DefaultPeriod)}
	if cpus := s.Limit.Value; cpus > 0 {
		l.Quota = max(bandwidth.MinQuota, scaled(l.Period, cpus))
		l.Burst = scaled(l.Quota, float64(s.Burst))
	}
	return l
}

func scaled(d time.Duration, by float64) time.Duration {
	return time.Duration(math.Round(float64(d) * by)).Round(time.Microsecond)
}

// Condition is what differs between windows.
type Condition struct {
	Name string `json:"name"`
	// Baseline is the condition that this one is compared with; "": the first.
	Baseline string `json:"baseline,omitempty"`
	// Settle replaces that of [Config], if it is more than 0.
	Settle Duration `json:"settle,omitzero"`
	// Services has settings, by name of the service, that replace those of [Config.Services].
	Services map[string]json.RawMessage `json:"services,omitempty"`
}

// Without returns the experiment without the given conditions, and without figures that are
// compared with one of them. The reasons become notes. It returns an error if nothing is left to
// answer.
func (c Config) Without(reasons map[string]string) (Config, error) {
	if len(reasons) == 0 {
		return c, nil
	}
	before := Result{Config: c}
	gone := func(condition string) bool { return reasons[condition] != "" }
	incomparable := func(a Answer) bool { return gone(a.Condition) || gone(cmp.Or(a.Against, before.Baseline(a.Condition))) }
	c.Answers = slices.DeleteFunc(slices.Clone(c.Answers), incomparable)
	c.Published = slices.DeleteFunc(slices.Clone(c.Published), func(p Published) bool {
		return gone(p.Condition) || gone(p.From) || p.Of != 0 && incomparable(p.Answer)
	})
	c.Conditions = slices.DeleteFunc(slices.Clone(c.Conditions), func(o Condition) bool { return gone(o.Name) })
	for i := range c.Conditions {
		if gone(c.Conditions[i].Baseline) {
			c.Conditions[i].Baseline = c.Conditions[i].Name
		}
	}
	notes := make([]string, 0, len(reasons))
	for _, name := range slices.Sorted(maps.Keys(reasons)) {
		notes = append(notes, fmt.Sprintf("The condition %q was left out: %s.", name, reasons[name]))
	}
	if c.Notes = append(slices.Clone(c.Notes), notes...); len(c.Answers) == 0 {
		return c, fmt.Errorf("experiment %q: nothing is left to compare. %s", c.Name, strings.Join(notes, " "))
	}
	return c, nil
}

// Answering returns an experiment with the first condition and those that its answers compare or its
// predictions of them are made from, or with all if it has no answers. A quick run has no time for others.
func (c Config) Answering() (Config, error) {
	if len(c.Answers) == 0 {
		return c, nil
	}
	all := Result{Config: c}
	wanted := map[string]bool{c.Conditions[0].Name: true}
	for _, a := range c.Answers {
		wanted[a.Condition], wanted[cmp.Or(a.Against, all.Baseline(a.Condition))] = true, true
	}
	for _, p := range c.Published {
		if p.From != "" && wanted[p.Condition] {
			wanted[p.From] = true
		}
	}
	reasons := map[string]string{}
	for _, o := range c.Conditions {
		if !wanted[o.Name] {
			reasons[o.Name] = "no answer compares it, and the run is quick"
		}
	}
	return c.Without(reasons)
}

// Client is how a load sends requests.
type Client string

// The clients.
const (
	// Batches sends a number of requests at the same time, again and again (open loop).
	Batches Client = "batches"
	// Random sends requests at random times (open loop).
	Random Client = "random"
	// OnOff has clients that are on and off for random times, with exponential distributions. While
	// it is on, each sends its next request some time after it has received the answer (closed
	// loop). Latency is measured from sending. A slow server therefore gets fewer requests.
	OnOff Client = "onoff"
	// Planned has the same clients, but each plans its requests at a fixed rate. Latency is
	// measured from the planned time.
	Planned Client = "planned"
	// Wrk runs the program wrk (closed loop). Latency is measured from sending.
	Wrk Client = "wrk"
)

// maxUse is the largest use that leaves CPU time for the load generator.
const maxUse quantity.Share = 0.8

// Load is how requests are sent to the first service.
type Load struct {
	Name   string `json:"name"`
	Client Client `json:"client"`
	// Batch requests are sent every Every, by "batches".
	Batch Amount   `json:"batch,omitzero"`
	Every Duration `json:"every,omitzero"`
	// Use is how much of the CPUs the service uses in the first condition. "random" sends as many requests as
	// this takes. If "onoff" or "planned" have it, it replaces Pause.
	Use quantity.Share `json:"use,omitempty"`
	// Clients of "onoff", "planned" and "wrk". On ("active") and Off ("inactive") are mean times.
	Clients Amount   `json:"clients,omitzero"`
	On      Duration `json:"active,omitzero"`
	Off     Duration `json:"inactive,omitzero"`
	// Pause is the time from an answer to the next request ("onoff"), or from one planned request
	// of a client to the next ("planned").
	Pause Duration `json:"pause,omitzero"`
}

// Active is how many clients are on at a time, on average. One sends the requests of a random load.
func (l Load) Active() float64 {
	if l.On.Duration+l.Off.Duration == 0 {
		return 1
	}
	return l.Clients.Value * l.On.Seconds() / (l.On.Seconds() + l.Off.Seconds())
}

// Answer is a comparison that answers the question of an experiment.
type Answer struct {
	Figure    Figure `json:"figure"`
	Condition string `json:"condition"`
	Load      string `json:"load,omitempty"` // "": the first
	// Against is a condition that replaces the baseline of the condition.
	Against string `json:"against,omitempty"`
}

// Published is a figure of the document.
type Published struct {
	Answer
	// Value is what the document says, in the unit of the figure. Of, if it is not 0, is the value
	// of the baseline, and then the ratios are compared.
	Value float64 `json:"value,omitempty"`
	Of    float64 `json:"of,omitempty"`
	// From is a condition, if the value is not published but predicted from the recording of that
	// condition, see [Result.Predict].
	From string `json:"from,omitempty"`
	// Text is how the document puts it, if that differs from the figure's unit.
	Text string `json:"text,omitempty"`
	// Note explains a difference to what is measured here.
	Note string `json:"note,omitempty"`
}

// names returns the names of things, and an error if one is empty or there twice.
func names[T any](what string, all []T, name func(T) string) ([]string, error) {
	var list []string
	var wrong []error
	for _, one := range all {
		n := name(one)
		if n == "" || strings.ContainsAny(n, "/\n") || slices.Contains(list, n) {
			wrong = append(wrong, fmt.Errorf("%s %q: each needs a name of its own, without %q", what, n, "/"))
		}
		list = append(list, n)
	}
	return list, errors.Join(wrong...)
}
