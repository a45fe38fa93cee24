package findings

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// Run is what one run of an experiment has measured.
type Run struct {
	Result experiment.Result
	// Usage has the CPU usage of the services. It may be nil. The series of a service has the group
	// "/CONDITION/LOAD/SERVICE", or "/CONDITION/SERVICE" if there is no load. Times are those of
	// windows.
	Usage *trace.Recording
}

// findings is what a run says.
type findings struct {
	Name, Question, Source string
	Incomplete             string // why, "" if the run is complete
	Results                table
	Tables                 []table
	Rounds                 string
	Generators             table
	Disturbed              string
	Reasons                []string // of disturbances
	Notes                  []string
	Environment            [][]string // names and values
	Config                 string     // YAML
	Command                string
}

// findings returns what the run says.
func (r Run) findings() (findings, error) {
	c := r.Result.Config
	if err := r.check(); err != nil {
		return findings{}, fmt.Errorf("experiment %q: %w", c.Name, err)
	}
	config, err := yaml.Marshal(c)
	if err != nil {
		return findings{}, fmt.Errorf("experiment %q: write its configuration: %w", c.Name, err)
	}
	f := findings{
		Name: plain(c.Name), Question: plain(c.Question), Source: plain(c.Source),
		Rounds: r.rounds(), Generators: r.generators(), Environment: r.environment(), Config: string(config), Command: r.command(),
	}
	if !r.Result.Complete {
		f.Incomplete = "This run is not complete: " + strings.TrimSuffix(plain(r.Result.Ended), ".") + "."
	}
	for _, note := range c.Notes {
		f.Notes = append(f.Notes, plain(note))
	}
	var about, notes []string
	f.Results, about = r.results()
	f.Tables, notes = r.tables()
	f.Notes = slices.Concat(f.Notes, about, notes)
	f.Disturbed, f.Reasons = r.disturbances()
	return f, nil
}

// check returns an error if a run cannot be reported.
func (r Run) check() error {
	if err := r.Result.Config.Check(); err != nil {
		return err
	}
	for _, p := range r.Result.Config.Published {
		if !plausible(p.Value) || !plausible(p.Of) {
			return fmt.Errorf("published %s: %g of %g: want numbers that are 0 or more", p.Figure, p.Value, p.Of)
		}
	}
	for i, w := range r.Result.Windows {
		for f, value := range w.Figures {
			if !plausible(value) {
				return fmt.Errorf("window %d: %s is %g, want a number that is 0 or more", i+1, f, value)
			}
		}
	}
	if !plausible(r.Result.Environment.Load) {
		return fmt.Errorf("environment: the load is %g, want a number that is 0 or more", r.Result.Environment.Load)
	}
	return nil
}

// rounds says how many rounds the medians have.
func (r Run) rounds() string {
	low, high := math.MaxInt, 0
	for _, condition := range r.Result.Config.Conditions {
		for _, load := range r.loads() {
			n := 0
			for _, w := range r.Result.Windows {
				if w.Disturbed == "" && w.Condition == condition.Name && w.Load == load {
					n++
				}
			}
			low, high = min(low, n), max(high, n)
		}
	}
	text := fmt.Sprint(low)
	switch {
	case high == 0:
		return "There is no undisturbed window."
	case low < high:
		text = fmt.Sprintf("%d to %d", low, high)
	}
	return fmt.Sprintf("Medians of %s undisturbed %s, with intervals of 95%% confidence. Changes are medians of the ratios in each round; p is that of a Mann-Whitney U test.",
		text, quantity.Plural(high, "round"))
}

// environment returns where the run was.
func (r Run) environment() (all [][]string) {
	e := r.Result.Environment
	add := func(name, format string, args ...any) {
		all = append(all, []string{name, plain(fmt.Sprintf(format, args...))})
	}
	if !e.Started.IsZero() {
		add("started", "%s", e.Started.UTC().Format("2006-01-02 15:04 UTC"))
	}
	add("kernel", "%s", e.Kernel)
	add("processor", "%s", e.Model)
	add("CPUs", "%d (%s, %s)", e.CPUs, quantity.Count(e.Cores, "core"), quantity.Count(e.Nodes, "NUMA node"))
	add("cgroup version", "%d", e.Cgroup)
	add("load before", "%.2f (average of a minute)", e.Load)
	if len(e.Hardened) > 0 {
		add("mitigations", "%s", strings.Join(e.Hardened, "; "))
	}
	for _, program := range slices.Sorted(maps.Keys(e.Programs)) {
		add(string(program), "%s", e.Programs[program])
	}
	add("Pinfold", "%s", e.Pinfold)
	if e.Quick {
		add("mode", "quick: fewer rounds and shorter windows")
	}
	if scale := r.Result.Scale(); scale.Factor() < 1 {
		add("scale", "numbers for %d CPUs were multiplied by %s", scale.Full, number(scale.Factor()))
	}
	return all
}

// command returns how to repeat the run.
func (r Run) command() string {
	command := "pinfold-lab run " + plain(r.Result.Config.Name)
	if r.Result.Environment.Quick {
		command += " --quick"
	}
	return command
}

// plain returns a text in one line without unprintable characters.
func plain(s string) string { return report.Printable(strings.Join(strings.Fields(s), " ")) }
