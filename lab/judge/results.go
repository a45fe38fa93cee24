package judge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"pinfold.dev/pinfold/lab/experiment"
)

// Session is one start of a run.
type Session struct {
	experiment.Environment
	Size    Size     `json:"size"`
	Only    string   `json:"only,omitempty"`
	Command []string `json:"command"`
	Commit  string   `json:"commit"`
}

// Program is a program, and the load that it gets.
type Program struct {
	Name    string        `json:"name"`
	Version string        `json:"version,omitempty"`
	Missing string        `json:"missing,omitempty"` // why it is left out
	Amount  int           `json:"amount,omitempty"`  // of work of a request, on average
	Every   time.Duration `json:"every,omitempty"`   // between requests, on average
}

// Before is what the machine did before a trial.
type Before struct {
	Load float64 `json:"load"` // average of a minute
	Used float64 `json:"used"` // share of all CPUs
}

// Measured is what was measured in a trial.
type Measured struct {
	Began      time.Time     `json:"began"`
	Before     Before        `json:"before"`
	Disturbed  string        `json:"disturbed,omitempty"` // why it is not judged
	Time       time.Duration `json:"time"`
	Throttled  uint64        `json:"throttled"` // periods
	Timer      uint64        `json:"timer"`     // periods in which the kernel's timer ran, 0 without a limit
	Used       float64       `json:"used"`      // CPUs
	Work       float64       `json:"work"`      // of all requests, in those of the average size; 0 if unknown
	Neighbours float64       `json:"neighbours"`
	Foreign    float64       `json:"foreign"`   // share of all CPUs that others used
	Stolen     float64       `json:"stolen"`    // share of all CPUs that the host took
	Latencies  []float64     `json:"latencies"` // milliseconds, ascending
}

// work returns the amount of work, in requests of the average size.
func (m Measured) work() float64 { return cmp.Or(m.Work, float64(len(m.Latencies))) }

// each returns the CPU time of a request of the average size.
func (m Measured) each() float64 { return m.Used * float64(m.Time) / m.work() }

// another reports whether a run had another load than a recording: for the same requests, the program
// used at least a quarter more or less CPU time. How much of the first and the last request is in
// the time of a run is unknown.
func (m Measured) another(recorded Measured) bool {
	want := m.work() * recorded.each()
	return math.Abs(m.Used*float64(m.Time)-want) > anotherLoad*want+2*recorded.each()
}

const anotherLoad = .25

// Periods returns the number of periods of the clock.
func (m Measured) Periods() float64 { return float64(m.Time) / float64(period) }

// Advice is what "pinfold advise" says about a limit with burst.
type Advice struct {
	Enough            bool     `json:"enoughData"`
	Reason            string   `json:"reason"`
	LimitCPUs         float64  `json:"limitCPUs"`
	LowCPUs           float64  `json:"lowCPUs"`
	HighCPUs          float64  `json:"highCPUs"`
	BurstPercent      float64  `json:"burstPercent"`
	ThrottleRatio     float64  `json:"throttleRatio"`
	LowThrottleRatio  float64  `json:"lowThrottleRatio"`
	HighThrottleRatio float64  `json:"highThrottleRatio"`
	Recorded          Recorded `json:"recorded"`
	Warnings          []string `json:"warnings,omitempty"`
}

// Recorded is what "pinfold advise" says about a recording.
type Recorded struct {
	Seconds       float64  `json:"seconds"`
	ThrottleRatio *float64 `json:"throttleRatio"`
	Waited        *float64 `json:"waitedRatio"`
}

// Recording is a recording, and the advice from it.
type Recording struct {
	Row
	Advice Advice `json:"advice"`
	Measured
}

// Run is a run under an advised limit.
type Run struct {
	Row
	On     Beside `json:"on"`
	Number int    `json:"number"` // from 0
	Measured
}

// line is one line of the file.
type line struct {
	Session   *Session   `json:"session,omitempty"`
	Program   *Program   `json:"program,omitempty"`
	Recording *Recording `json:"recording,omitempty"`
	Run       *Run       `json:"run,omitempty"`
}

// Results are everything that was measured.
type Results struct {
	Sessions   []Session
	Programs   []Program
	Recordings []Recording
	Runs       []Run
}

// Names of files.
const (
	linesFile = "advice.jsonl"
	// Table is the file of the table.
	Table = "advice.md"
)

// Open reads the results in a directory. A directory without the file has none.
func Open(dir string) (r Results, err error) {
	r, _, err = read(filepath.Join(dir, linesFile))
	return r, err
}

// read reads results, and returns the length of the complete lines: the last one is incomplete if
// the program was killed.
func read(file string) (r Results, length int64, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, 0, nil
	}
	if err != nil {
		return r, 0, err
	}
	for n := 1; ; n++ {
		one, rest, complete := bytes.Cut(text, []byte("\n"))
		if !complete {
			return r, length, nil
		}
		var next line
		if err := json.Unmarshal(one, &next); err != nil || next == (line{}) {
			return r, length, errors.Join(fmt.Errorf("%s, line %d, is not of a trial of advice", file, n), err)
		}
		r.add(next)
		length += int64(len(one)) + 1
		text = rest
	}
}

func (r *Results) add(l line) {
	switch {
	case l.Session != nil:
		r.Sessions = append(r.Sessions, *l.Session)
	case l.Program != nil:
		r.Programs = append(r.Programs, *l.Program)
	case l.Recording != nil:
		r.Recordings = append(r.Recordings, *l.Recording)
	case l.Run != nil:
		r.Runs = append(r.Runs, *l.Run)
	}
}

// program, recording and run return what was found before, nil if nothing was.
func (r *Results) program(name string) *Program {
	return find(r.Programs, func(p *Program) bool { return p.Name == name })
}

func (r *Results) recording(row Row) *Recording {
	return find(r.Recordings, func(p *Recording) bool { return p.Row == row })
}

func (r *Results) run(row Row, on Beside, number int) *Run {
	return find(r.Runs, func(p *Run) bool { return p.Row == row && p.On == on && p.Number == number })
}

func find[T any](all []T, is func(*T) bool) *T {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// archive appends to the results in a file.
type archive struct {
	Results
	file *os.File
}

// openArchive opens the file of a directory, after what is in it.
func openArchive(dir string) (*archive, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, linesFile)
	found, length, err := read(name)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	_, errSeek := file.Seek(length, 0)
	if err := errors.Join(file.Truncate(length), errSeek); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &archive{found, file}, nil
}

// write writes a line, to the disk.
func (a *archive) write(l line) error {
	if err := errors.Join(json.NewEncoder(a.file).Encode(l), a.file.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", a.file.Name(), err)
	}
	a.add(l)
	return nil
}
