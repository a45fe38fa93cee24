package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/placement"
)

// Result is an experiment and what was measured.
type Result struct {
	Config      Config
	Environment Environment
	Windows     []Window
	Explained   []Explanation
	// Complete is false if the run was ended early.
	Complete bool
	// Ended is why.
	Ended string
}

// Environment is where an experiment ran.
type Environment struct {
	Started  time.Time `json:"started"`
	Pinfold  string    `json:"pinfold"` // version
	Kernel   string    `json:"kernel"`
	Model    string    `json:"model"` // of the CPUs
	CPUs     int       `json:"cpus"`
	Cores    int       `json:"cores"`
	Nodes    int       `json:"numaNodes"`
	Cgroup   int       `json:"cgroup"`   // version
	Load     float64   `json:"load"`     // average of a minute, before the run
	Hardened []string  `json:"hardened"` // mitigations of hardware vulnerabilities
	Place    Place     `json:"place"`    // where the services ran
	// Background is the share of the CPUs that the components of a cluster used before the run.
	Background float64 `json:"background,omitempty"`
	// Programs has the version of each program, and says if a built-in one replaced it.
	Programs map[Program]string `json:"programs"`
	Quick    bool               `json:"quick"`
	// Arrivals is the version of how loads become requests, [Arrivals] for new runs.
	Arrivals int `json:"arrivals,omitempty"`
	// Looks is how often the run may have looked at its results to find out whether it could end; 0
	// if it was not to end before its last round. Intervals and tests allow for that.
	Looks int `json:"looks,omitempty"`
}

// Arrivals is the present version of how loads become requests. In version 0 "random" had one request in
// each interval, and windows began without the requests of the time before.
const Arrivals = 1

// replaced reports whether a built-in program replaced another one.
func (e Environment) replaced(p Program) bool {
	return strings.HasPrefix(e.Programs[p], BuiltIn) && e.Programs[p] != BuiltIn
}

// BuiltIn is the version of a program that is built in, and begins that of one that replaced another.
const BuiltIn = "built in"

// Place is where the services of an experiment run.
type Place string

// The places.
const (
	Groups  Place = "control groups" // processes in control groups
	Cluster Place = "cluster"        // pods of a local cluster
)

// Scale returns the scale of amounts.
func (r Result) Scale() Scale { return Scale{CPUs: r.Environment.CPUs, Full: r.Config.CPUs} }

// Window is what was measured in one window.
type Window struct {
	Round     int    `json:"round"`
	Condition string `json:"condition"`
	Load      string `json:"load,omitempty"`
	// Disturbed is why the window is not used, "" if it is.
	Disturbed string `json:"disturbed,omitempty"`
	// From and To are the time of the measurement, since the run started.
	From    time.Duration      `json:"from"`
	To      time.Duration      `json:"to"`
	Figures map[Figure]float64 `json:"figures"`
	// Latencies is a histogram of latencies in microseconds: HdrHistogram, compressed V2 encoding,
	// in base64 as its libraries return it.
	Latencies []byte `json:"latencies,omitempty"`
}

// Group returns the name of a service's group in the recording of the usage:
// /CONDITION/LOAD/SERVICE, or /CONDITION/SERVICE without a load.
func (w Window) Group(service string) string {
	if w.Load == "" {
		return "/" + w.Condition + "/" + service
	}
	return "/" + w.Condition + "/" + w.Load + "/" + service
}

// Disturbed returns why a window is not used, "" if it is. Other processes may use more where they
// use some anyway, as the components of a cluster do.
func (c Config) Disturbed(w Window, e Environment) string {
	switch {
	case w.Figures[Foreign] > float64(c.Foreign)+e.Background:
		return fmt.Sprintf("other processes used %s of the CPUs", Foreign.Format(w.Figures[Foreign]))
	case w.Figures[Stolen] > float64(c.Foreign):
		return fmt.Sprintf("the hypervisor took %s of the CPUs", Stolen.Format(w.Figures[Stolen]))
	}
	services, err := c.in(w.Condition, e.CPUs)
	if err != nil {
		return ""
	}
	own, others := 0, 0
	for i, s := range services {
		if s.Policy == placement.Static {
			own += s.Limit.Count() * min(1, s.Count())
		}
		if i > 0 && s.Count() > 0 {
			others++
		}
	}
	all := float64(e.CPUs)
	if busy := w.Figures[Generator] * all / float64(max(1, e.CPUs-own)); busy > maxBusy {
		return fmt.Sprintf("the load generator used %s of its CPUs", Generator.Format(busy))
	}
	if others > 0 && w.Figures[Others] < minOthers*all {
		return fmt.Sprintf("the other services used only %s", Others.Format(w.Figures[Others]))
	}
	return ""
}

// maxBusy is how much of the CPUs that no service has alone the load generator may use. With more,
// what is measured is the generator. minOthers is how much of all CPUs the other services must use
// together, if any of them runs. With less, they do not disturb the first one.
const maxBusy, minOthers = 0.9, 0.02

// Explanation is where the time of the service's threads went in a condition, as traced in a window
// of its own.
type Explanation struct {
	Condition string        `json:"condition"`
	Load      string        `json:"load,omitempty"`
	Window    time.Duration `json:"window"`
	blame.Parts
}

// head is the first line of a file, and tail the last one.
type head struct {
	Config      Config      `json:"experiment"`
	Environment Environment `json:"environment"`
}

type tail struct {
	Explained []Explanation `json:"explained,omitempty"`
	Ended     string        `json:"ended"` // "complete", or why it ended early
}

const complete = "complete"

// Writer writes a result as lines of JSON while it is measured: the experiment, then a line per
// window, then how it ended. The last line is missing if the run was killed.
type Writer struct{ lines *json.Encoder }

// NewWriter writes the first line.
func NewWriter(w io.Writer, c Config, e Environment) (*Writer, error) {
	out := &Writer{json.NewEncoder(w)}
	return out, out.write("the experiment", head{c, e})
}

func (w *Writer) write(what string, line any) error {
	if err := w.lines.Encode(line); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// Window writes a window.
func (w *Writer) Window(window Window) error { return w.write("a window", window) }

// End writes the last line. err is why the run ended early, nil if it is complete.
func (w *Writer) End(explained []Explanation, err error) error {
	t := tail{explained, complete}
	if err != nil {
		t.Ended = err.Error()
	}
	return w.write("the end", t)
}

// Read reads what a [Writer] has written. A file without its last line, or with an incomplete one,
// is a result that is not complete.
func Read(from io.Reader) (r Result, err error) {
	lines := json.NewDecoder(from)
	lines.DisallowUnknownFields()
	var first head
	if err := lines.Decode(&first); err != nil {
		return r, fmt.Errorf("the first line is not an experiment: %w", err)
	}
	if err := first.Config.Check(); err != nil {
		return r, fmt.Errorf("the first line is not an experiment: %w", err)
	}
	r = Result{Config: first.Config, Environment: first.Environment, Ended: "it was killed"}
	for line := 2; ; line++ {
		var next struct {
			Window
			tail
		}
		switch err := lines.Decode(&next); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return r, nil
		case err != nil:
			return r, fmt.Errorf("line %d is neither a window nor the end: %w", line, err)
		case next.Round < 0 || next.Round >= MaxRounds:
			return r, fmt.Errorf("line %d: round %d: must be from 0 to %d", line, next.Round, MaxRounds-1)
		case next.Ended != "":
			r.Explained, r.Ended = next.Explained, next.Ended
			if r.Complete = r.Ended == complete; r.Complete {
				r.Ended = ""
			}
			return r, nil
		}
		next.withoutGenerator(r.Environment.CPUs)
		r.Windows = append(r.Windows, next.Window)
	}
}

// withoutGenerator computes the usage of the machine again: windows that were recorded before
// 2026-11-27 include the load generator in it.
func (w Window) withoutGenerator(cpus int) {
	if _, ok := w.Figures[Machine]; ok && cpus > 0 {
		w.Figures[Machine] = (w.Figures[Used]+w.Figures[Others])/float64(cpus) + w.Figures[Foreign]
	}
}

// WithDisturbed returns the result with the first window of each round, condition and load, whether
// it was disturbed or not: nothing is left out or measured again.
func (r Result) WithDisturbed() Result {
	type place struct {
		round           int
		condition, load string
	}
	seen := map[place]bool{}
	windows := r.Windows
	r.Windows = nil
	for _, w := range windows {
		if at := (place{w.Round, w.Condition, w.Load}); !seen[at] {
			seen[at] = true
			w.Disturbed = ""
			r.Windows = append(r.Windows, w)
		}
	}
	return r
}
