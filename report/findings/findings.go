package findings

import (
	"cmp"
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

	// Others are other runs of the experiment, with which this one is compared.
	Others []experiment.Result

	compared  map[experiment.Answer]experiment.Comparison // all with a condition and a load
	level     float64                                     // up to which a difference counts
	predicted map[prediction]predicted
	beside    []beside
}

// Judge returns the runs with what is compared and predicted, which takes long. A difference counts
// if it does among all of them. Otherwise each page or text about the runs does that by itself.
func Judge(runs []Run) []Run {
	if !slices.ContainsFunc(runs, func(r Run) bool { return r.compared == nil }) {
		return runs
	}
	runs = slices.Clone(runs)
	var all []experiment.Comparison
	for i := range runs {
		r := &runs[i]
		r.compared, r.predicted = r.Result.Comparisons(r.figures()), r.predictions()
		all = slices.AppendSeq(all, maps.Values(r.compared))
	}
	level := experiment.Level(all)
	for i := range runs {
		runs[i].level = level
		for answer, c := range runs[i].compared {
			runs[i].compared[answer] = c.AtLevel(level)
		}
		runs[i].beside = runs[i].compareOthers()
	}
	return runs
}

// figures returns those of tables, answers and published ones, each once.
func (r Run) figures() []experiment.Figure {
	c := r.Result.Config
	all := slices.Clone(c.Figures)
	for _, a := range c.Answers {
		all = append(all, a.Figure)
	}
	for _, p := range c.Published {
		all = append(all, p.Figure)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// compare returns a comparison of the run.
func (r Run) compare(a experiment.Answer) experiment.Comparison {
	a.Load = cmp.Or(a.Load, r.loads()[0])
	return r.compared[a]
}

// findings is what a run says, in words.
type findings struct {
	Name, Question, Source string
	Incomplete             string // why, "" if the run is complete
	Answers                []string
	Verdicts               []verdict // the answers in a few words
	Beside                 []beside
	Machine                string
	Claims                 []claim
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
	for _, other := range r.Others {
		if err := (Run{Result: other}).check(); err != nil {
			return findings{}, fmt.Errorf("another run of experiment %q: %w", c.Name, err)
		}
	}
	config, err := yaml.Marshal(c)
	if err != nil {
		return findings{}, fmt.Errorf("experiment %q: write its configuration: %w", c.Name, err)
	}
	f := findings{
		Name: plain(c.Name), Question: plain(c.Question), Source: plain(c.Source), Claims: r.claims(),
		Rounds: r.rounds(), Generators: r.generators(), Environment: r.environment(), Config: string(config), Command: r.command(),
		Machine: r.machine(), Beside: r.beside,
	}
	if !r.Result.Complete {
		f.Incomplete = "This run is not complete: " + strings.TrimSuffix(plain(r.Result.Ended), ".") + "."
	}
	for _, a := range c.Answers {
		one := r.compare(a)
		f.Answers = append(f.Answers, r.answer(one)+r.withDisturbed(one))
		f.Verdicts = append(f.Verdicts, r.verdict(one))
	}
	for _, note := range c.Notes {
		f.Notes = append(f.Notes, plain(note))
	}
	var notes []string
	f.Tables, notes = r.tables()
	f.Notes = append(f.Notes, notes...)
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

// rounds says how values and intervals were made, and of how many rounds.
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
	return fmt.Sprintf("Values are those of %s undisturbed %s together: quantiles of the latencies of all requests, means of all else. "+
		"Changes are their ratios. Intervals have 95%% confidence, and p is by the same method (bootstrap over rounds, paired). "+
		"A difference counts if p is at most %s, so that 5%% of those that this report finds are expected to be none (Benjamini-Hochberg). "+
		"Intervals of changes are of this level, too.", text, quantity.Plural(high, "round"), probability(r.level))
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
	add("place", "%s", e.Place)
	if e.Background > 0 {
		add("other usage before", "%s of the CPUs, by the components of the cluster and others", experiment.Foreign.Format(e.Background))
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

// machine returns the machine of the run in a line.
func (r Run) machine() string {
	e := r.Result.Environment
	text := fmt.Sprintf("%s, Linux %s, control groups of version %d", quantity.Count(e.CPUs, "CPU"), e.Kernel, e.Cgroup)
	if e.Place == experiment.Cluster {
		text += ", pods of a local cluster"
	}
	return plain(text)
}

// tally says how many of the published and predicted figures of all runs agree with what was measured.
func tally(all []findings) string {
	n := map[string]int{}
	for _, f := range all {
		for _, c := range f.Claims {
			n[c.Conclusion.Verdict]++
		}
	}
	return counted(n, "published or predicted figure", "beside the measured ones")
}

// counted says how many things there are of each kind, the most frequent first. For no things it
// returns "".
func counted(n map[string]int, what, beside string) string {
	var parts []string
	of := 0
	for _, verdict := range slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%s: %d", strings.ToLower(verdict[:1])+verdict[1:], n[verdict]))
		of += n[verdict]
	}
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s: %s.", quantity.Count(of, what), beside, strings.Join(parts, "; "))
}

// concludedFirst returns the indices of runs, those first that have an answer to all that they ask.
func concludedFirst(runs []Run) []int {
	var concluded, open []int
	for i, r := range runs {
		if slices.ContainsFunc(r.Result.Config.Answers, func(a experiment.Answer) bool { return r.compare(a).Verdict() == experiment.Unknown }) {
			open = append(open, i)
		} else {
			concluded = append(concluded, i)
		}
	}
	return append(concluded, open...)
}

// command returns how to repeat the run.
func (r Run) command() string {
	command := "pinfold-lab run " + plain(r.Result.Config.Name)
	rounds := 0
	for _, w := range r.Result.Windows {
		rounds = max(rounds, w.Round+1)
	}
	if r.Result.Complete && rounds > r.Result.Config.Rounds {
		command += fmt.Sprintf(" --repetitions %d", rounds)
	}
	if r.Result.Environment.Quick {
		command += " --quick"
	}
	if r.Result.Environment.Place == experiment.Cluster {
		command += " --on cluster"
	}
	return command
}

// plain returns a text in one line without unprintable characters.
func plain(s string) string { return report.Printable(strings.Join(strings.Fields(s), " ")) }
