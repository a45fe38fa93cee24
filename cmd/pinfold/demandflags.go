package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/quantity"
)

// demandFlags are the flags that say what a group wants in each period, when that is not
// taken from a recording: a family of distributions, whose mean is said elsewhere.
type demandFlags struct {
	flags    *pflag.FlagSet
	name     string
	shape    float64
	bound    float64
	perQuota float64
	sigma    float64
	on, off  float64
	clients  int
}

// family is a kind of demand: which parameters it has beside the mean, and how it is made.
type family struct {
	name       string
	parameters []string // of the flags
	shape      float64  // without a flag
	make       func(*demandFlags, float64) (demand.Process, error)
}

// The shapes of the published tables for CPU burst, and of the sum of two exponential demands.
const (
	paretoShape = 4
	gammaShape  = 2
)

func families() []family {
	return []family{
		{"exponential", nil, 0, func(_ *demandFlags, mean float64) (demand.Process, error) {
			return independently(demand.NewExponential(mean))
		}},
		{"pareto", []string{"shape", "bound"}, paretoShape, func(f *demandFlags, mean float64) (demand.Process, error) {
			if f.flags.Changed("bound") {
				return independently(demand.NewTruncatedPareto(f.shapeOr(paretoShape), mean, f.bound))
			}
			return independently(demand.NewPareto(f.shapeOr(paretoShape), mean))
		}},
		{"poisson", []string{"per-quota"}, 0, func(f *demandFlags, mean float64) (demand.Process, error) {
			return independently(demand.NewPoisson(mean, f.perQuota))
		}},
		{"gamma", []string{"shape"}, gammaShape, func(f *demandFlags, mean float64) (demand.Process, error) {
			return independently(demand.NewGamma(f.shapeOr(gammaShape), mean))
		}},
		{"lognormal", []string{"sigma"}, 0, func(f *demandFlags, mean float64) (demand.Process, error) {
			return independently(demand.NewLognormal(f.sigma, mean))
		}},
		{"constant", nil, 0, func(_ *demandFlags, mean float64) (demand.Process, error) {
			return independently(demand.NewConstant(mean))
		}},
		{"onoff", []string{"on", "off", "clients"}, 0, func(f *demandFlags, mean float64) (demand.Process, error) {
			o, err := demand.NewOnOff(mean, f.on, f.off, f.clients)
			return o, err
		}},
	}
}

func independently[D demand.Distribution](d D, err error) (demand.Process, error) {
	return demand.Independent{Distribution: d}, err
}

func familyNames() string {
	var names []string
	for _, f := range families() {
		names = append(names, f.name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func newDemandFlags(cmd *cobra.Command) *demandFlags {
	f := &demandFlags{flags: cmd.Flags()}
	f.flags.StringVar(&f.name, "distribution", "", "of the demand in a period: `NAME` is "+familyNames())
	f.flags.Float64Var(&f.shape, "shape", 0, "`SHAPE` of a Pareto distribution (default 4: the higher, the shorter its tail), or of gamma (default 2; 1 is exponential)")
	f.flags.Float64Var(&f.bound, "bound", 0, "cut a Pareto distribution off at `X` times the quota")
	f.flags.Float64Var(&f.perQuota, "per-quota", 10, "requests of a Poisson distribution that `N` of fill a quota")
	f.flags.Float64Var(&f.sigma, "sigma", 1, "standard deviation `S` of the logarithm of a lognormal distribution")
	f.flags.Float64Var(&f.on, "on", 1, "clients of onoff work for `PERIODS` on average")
	f.flags.Float64Var(&f.off, "off", 9, "and then do not for `PERIODS`")
	f.flags.IntVar(&f.clients, "clients", 10, "`N` clients of onoff in a group")
	return f
}

func (f *demandFlags) shapeOr(otherwise float64) float64 {
	if f.flags.Changed("shape") {
		return f.shape
	}
	return otherwise
}

// family returns what --distribution names.
func (f *demandFlags) family() (family, error) {
	for _, known := range families() {
		if known.name == f.name {
			return known, f.noOthers(known)
		}
	}
	return family{}, &wrongUsage{fmt.Sprintf("--distribution %q is not known: take %s", f.name, familyNames())}
}

// noOthers refuses parameters of other distributions.
func (f *demandFlags) noOthers(known family) error {
	for _, other := range families() {
		for _, name := range other.parameters {
			if f.flags.Changed(name) && !slices.Contains(known.parameters, name) {
				return &wrongUsage{fmt.Sprintf("--%s is for --distribution %s, and not for %s", name, other.name, known.name)}
			}
		}
	}
	return nil
}

// given returns the first flag about distributions that was given, "" for none.
func (f *demandFlags) given(more ...string) string {
	names := append([]string{"distribution"}, more...)
	for _, known := range families() {
		names = append(names, known.parameters...)
	}
	for _, name := range names {
		if f.flags.Changed(name) {
			return name
		}
	}
	return ""
}

// process returns the demand of a mean, in multiples of the quota.
func (f *demandFlags) process(mean float64) (demand.Process, error) {
	known, err := f.family()
	if err != nil {
		return nil, err
	}
	p, err := known.make(f, mean)
	if err != nil {
		return nil, &wrongUsage{fmt.Sprintf("--distribution %s --mean %v: %v", f.name, mean, err)}
	}
	if mean >= 1 {
		return nil, &wrongUsage{fmt.Sprintf("--mean %v: %s", mean, unstable(mean, "ask about a mean below 1"))}
	}
	return p, nil
}

// unstable says what becomes of a group whose mean demand is its quota or more, and what
// to do.
func unstable(mean float64, advice string) string {
	what := fmt.Sprintf("its backlog grows by %s of the quota per period, without end", quantity.Share(mean-1))
	if mean == 1 {
		what = "it never makes up for a backlog, which grows without end"
	}
	return "there is no stationary state, as " + what + "; " + advice
}
