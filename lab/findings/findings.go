package findings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/report"
)

// Run is what one run of an experiment has measured.
type Run struct {
	Result experiment.Result
	// Usage has the CPU usage of the services. It may be nil. The series of a service has the group
	// "/CONDITION/LOAD/SERVICE", or "/CONDITION/SERVICE" if there is no load. Times are those of
	// windows.
	Usage *trace.Recording
	// compared has all comparisons, and predicted all predictions, which are made when they are needed. Both are
	// nil until Prepare.
	compared  map[experiment.Answer]experiment.Comparison
	predicted map[predictedFrom]prediction
}

// Prepare makes all comparisons of the runs in one report; one is significant among all of them. The functions that
// write a report do this, too, unless it is done. Prepared runs are predicted once for all formats.
func Prepare(runs []Run) []Run {
	if !slices.ContainsFunc(runs, func(r Run) bool { return r.compared == nil }) {
		return runs
	}
	runs = slices.Clone(runs)
	order := map[string]int{}
	for i, r := range runs {
		if _, seen := order[r.Result.Config.Name]; !seen {
			order[r.Result.Config.Name] = i
		}
	}
	slices.SortStableFunc(runs, func(a, b Run) int { // of one experiment, control groups of version 2 first
		return cmp.Or(order[a.Result.Config.Name]-order[b.Result.Config.Name], b.Result.Environment.Cgroup-a.Result.Environment.Cgroup)
	})
	results := make([]experiment.Result, len(runs))
	for i, r := range runs {
		results[i] = r.Result
	}
	for i, compared := range experiment.CompareAll(results...) {
		runs[i].compared, runs[i].predicted = compared, runs[i].predictions()
	}
	return runs
}

// compare compares a condition with its baseline.
func (r Run) compare(a experiment.Answer) experiment.Comparison {
	if a.Load == "" {
		a.Load = r.Result.Config.LoadNames()[0]
	}
	return r.compared[a]
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
	if r.Result.Environment.Model == "UML" {
		f.Notes = append(f.Notes, "This was in User Mode Linux, a kernel that runs as a process: threads of a program do not run at the same time, and what the host took is not seen. So it shows what the kernel counts of limits, and not the latencies of a machine.")
	}
	var about, notes []string
	f.Results, about = r.results()
	f.Tables, notes = r.tables()
	f.Notes = slices.Concat(f.Notes, about, notes)
	f.Disturbed, f.Reasons = r.disturbances()
	return f, nil
}

// describe returns what each run says. Several runs of one experiment have their dates in names and questions,
// and those with control groups of version 2 say so if there are others.
func describe(runs []Run) ([]findings, error) {
	count, first := map[string]int{}, map[string]int{}
	for _, r := range runs {
		count[r.Result.Config.Name]++
		if r.Result.Environment.Cgroup == 1 {
			first[r.Result.Config.Name]++
		}
	}
	all := make([]findings, len(runs))
	for i, r := range runs {
		var err error
		if all[i], err = r.findings(); err != nil {
			return nil, err
		}
		if e := r.Result.Environment; count[r.Result.Config.Name] > 1 && !e.Started.IsZero() {
			day, where := e.Started.UTC().Format(time.DateOnly), e.Model
			if e.Cgroup == 2 && first[r.Result.Config.Name] > 0 {
				day, where = day+", cgroup version 2", "Linux "+e.Kernel
			}
			all[i].Name += ", " + day
			all[i].Question += " " + plain(fmt.Sprintf("(%s, %s)", day, where))
		}
	}
	return all, nil
}

// tally counts the verdicts.
func tally(all []findings) string {
	count := map[string]int{}
	rows := 0
	for _, f := range all {
		for _, row := range f.Results.flat() {
			verdict, _, _ := strings.Cut(row[len(row)-1], ":")
			count[cmp.Or(verdict, "no verdict")]++
			rows++
		}
	}
	verdicts := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(count[b]-count[a], strings.Compare(a, b)) })
	for i, v := range verdicts {
		verdicts[i] = fmt.Sprintf("%s: %d", v, count[v])
	}
	return fmt.Sprintf("Of %s: %s.", quantity.Count(rows, "row"), strings.Join(verdicts, "; "))
}

// machines describes where the runs were.
func machines(runs []Run) string {
	var all []string
	for _, r := range runs {
		e := r.Result.Environment
		all = append(all, plain(fmt.Sprintf("%s, %s, Linux %s, control groups of version %d", e.Model, quantity.Count(e.CPUs, "CPU"), e.Kernel, e.Cgroup)))
	}
	slices.Sort(all)
	return "Measured on " + strings.Join(slices.Compact(all), "; and on ") + "."
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

// rounds says how many rounds the figures have.
func (r Run) rounds() string {
	low, high := math.MaxInt, 0
	for _, condition := range r.Result.Config.Conditions {
		for _, load := range r.Result.Config.LoadNames() {
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
	return fmt.Sprintf("Figures are those of all windows of %s undisturbed %s together (the longest latency, and quantiles of wrk: means of those of windows). Intervals have a confidence of 95%% and come from rounds that are drawn again, and so does p, the probability of such a change by chance.",
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
	if most := r.Result.Config.Most; most > 0 {
		add("rounds", "until there is an answer, at most %d; intervals are those of all looks", most)
	}
	if scale := r.Result.Scale(); scale.Factor() < 1 {
		add("scale", "numbers for %d CPUs were multiplied by %s", scale.Full, number(scale.Factor()))
	}
	return all
}

// command returns how to repeat the run.
func (r Run) command() string {
	if known := r.Result.Environment.Command; known != "" {
		return plain(known)
	}
	command := "pinfold-lab run " + plain(r.Result.Config.Name)
	if r.Result.Environment.Quick {
		command += " --quick"
	}
	if r.Result.Config.Most > 0 {
		command += " --until concluded"
	}
	return command
}

// plain returns a text in one line without unprintable characters.
func plain(s string) string { return report.Printable(strings.Join(strings.Fields(s), " ")) }
