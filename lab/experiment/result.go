package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"pinfold.dev/pinfold/core/blame"
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
	// Programs has the version of each program, and says if a built-in one replaced it.
	Programs map[Program]string `json:"programs"`
	Quick    bool               `json:"quick"`
	// Command repeats the run; "" of old results.
	Command string `json:"command,omitempty"`
}

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

// busy is the share of its CPUs from which on a load generator may be late, or slow down others there.
const busy = 0.9

// Disturbed returns why a window is not used, "" if it is. generator is the share of the CPUs on which the
// load generator may run that it used.
func (c Config) Disturbed(w Window, generator float64) string {
	switch {
	case generator > busy:
		return fmt.Sprintf("the load generator used %s of its CPUs", Generator.Format(generator))
	case w.Figures[Foreign] > float64(c.Foreign):
		return fmt.Sprintf("other processes used %s of the CPUs", Foreign.Format(w.Figures[Foreign]))
	case w.Figures[Stolen] > float64(c.Foreign):
		return fmt.Sprintf("the hypervisor took %s of the CPUs", Stolen.Format(w.Figures[Stolen]))
	}
	return ""
}

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
		case next.Ended != "":
			r.Explained, r.Ended = next.Explained, next.Ended
			if r.Complete = r.Ended == complete; r.Complete {
				r.Ended = ""
			}
			return r, nil
		}
		r.Windows = append(r.Windows, next.Window)
	}
}
