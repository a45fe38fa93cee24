package model

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/quantity"
)

// distributionOptions describe the demand of a group in each period by a family of distributions.
// The mean has a flag of its own.
type distributionOptions struct {
	all      []family // known to the command
	flags    *pflag.FlagSet
	names    string // one, for a sweep several with commas
	shape    float64
	bound    float64
	perQuota float64
	sigma    float64
	on, off  float64
	clients  int
}

// family is a family of distributions.
type family struct {
	name         string
	parameters   []string // names of flags, besides the mean
	defaultShape float64
	make         func(*distributionOptions, float64) (demand.Process, error)
}

// Pareto demand with this shape is that of the published tables for CPU burst. Gamma demand with
// this shape is the sum of two exponential demands.
const (
	paretoShape = 4
	gammaShape  = 2
)

// onOff is the family of correlated demand.
const onOff = "onoff"

func families() []family {
	return []family{
		{"exponential", nil, 0, func(_ *distributionOptions, mean float64) (demand.Process, error) {
			return independent(demand.NewExponential(mean))
		}},
		{"pareto", []string{"shape", "bound"}, paretoShape, func(f *distributionOptions, mean float64) (demand.Process, error) {
			if f.flags.Changed("bound") {
				return independent(demand.NewTruncatedPareto(f.shapeOr(paretoShape), mean, f.bound))
			}
			return independent(demand.NewPareto(f.shapeOr(paretoShape), mean))
		}},
		{"poisson", []string{"per-quota"}, 0, func(f *distributionOptions, mean float64) (demand.Process, error) {
			return independent(demand.NewPoisson(mean, f.perQuota))
		}},
		{"gamma", []string{"shape"}, gammaShape, func(f *distributionOptions, mean float64) (demand.Process, error) {
			return independent(demand.NewGamma(f.shapeOr(gammaShape), mean))
		}},
		{"lognormal", []string{"sigma"}, 0, func(f *distributionOptions, mean float64) (demand.Process, error) {
			return independent(demand.NewLognormal(f.sigma, mean))
		}},
		{"constant", nil, 0, func(_ *distributionOptions, mean float64) (demand.Process, error) {
			return independent(demand.NewConstant(mean))
		}},
		{onOff, []string{"on", "off", "clients"}, 0, func(f *distributionOptions, mean float64) (demand.Process, error) {
			return demand.NewOnOff(mean, f.on, f.off, f.clients)
		}},
	}
}

// independent returns the process whose periods have independent demands.
func independent[D demand.Distribution](d D, err error) (demand.Process, error) {
	return demand.Independent{Distribution: d}, err
}

// independentFamilies returns the families whose periods are independent.
func independentFamilies() []family {
	return slices.DeleteFunc(families(), func(f family) bool { return f.name == onOff })
}

func (f *distributionOptions) familyNames() (names []string) {
	for _, one := range f.all {
		names = append(names, one.name)
	}
	return names
}

func (f *distributionOptions) familyText() string {
	names := f.familyNames()
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// newDistributionOptions adds the flags of some families.
func newDistributionOptions(cmd *cobra.Command, all []family) *distributionOptions {
	f := &distributionOptions{all: all, flags: cmd.Flags(), perQuota: 10, sigma: 1, on: 1, off: 9}
	f.flags.StringVar(&f.names, "distribution", "", "of the demand in a period: `NAME` is "+f.familyText())
	frame.CompleteFlag(cmd, "distribution", func(context.Context) []string { return f.familyNames() })
	frame.NumberVar(f.flags, &f.shape, "shape", "SHAPE", "of a Pareto distribution (default 4: the higher, the shorter its tail), or of gamma (default 2; 1 is exponential)")
	frame.ShareVar(f.flags, &f.bound, math.Inf(1), "bound", "cut a Pareto distribution off at this share of the quota, such as 300%")
	frame.NumberVar(f.flags, &f.perQuota, "per-quota", "N", "a quota is enough for N requests of a Poisson distribution")
	frame.NumberVar(f.flags, &f.sigma, "sigma", "S", "standard deviation of the logarithm of a lognormal distribution")
	if slices.Contains(f.familyNames(), onOff) {
		frame.NumberVar(f.flags, &f.on, "on", "PERIODS", "clients of onoff work for PERIODS on average")
		frame.NumberVar(f.flags, &f.off, "off", "PERIODS", "and then pause for PERIODS on average")
		f.flags.IntVar(&f.clients, "clients", 10, "`N` clients of onoff in a group")
	}
	return f
}

func (f *distributionOptions) shapeOr(otherwise float64) float64 {
	if f.flags.Changed("shape") {
		return f.shape
	}
	return otherwise
}

// families returns the families of some names. Parameters of other families are rejected.
func (f *distributionOptions) families(names ...string) ([]family, error) {
	var chosen []family
	for _, name := range names {
		i := slices.IndexFunc(f.all, func(known family) bool { return known.name == name })
		if i < 0 {
			return nil, frame.Usagef("--distribution %q is not known: take %s", name, f.familyText())
		}
		chosen = append(chosen, f.all[i])
	}
	for _, other := range f.all {
		for _, name := range other.parameters {
			if f.flags.Changed(name) && !slices.ContainsFunc(chosen, func(c family) bool { return slices.Contains(c.parameters, name) }) {
				return nil, frame.Usagef("--%s is for --distribution %s, and not for %s", name, other.name, f.names)
			}
		}
	}
	return chosen, nil
}

// checkMean returns an error if --mean was not given.
func (f *distributionOptions) checkMean() error {
	if !f.flags.Changed("mean") {
		return frame.Usagef("--mean is missing: say what share of its quota a container wants per period, as in --mean 70%%")
	}
	return nil
}

// firstChanged returns the first flag about distributions that the user has set, "" for none.
func (f *distributionOptions) firstChanged() string {
	names := []string{"distribution", "mean"}
	for _, known := range f.all {
		names = append(names, known.parameters...)
	}
	return firstChangedOf(f.flags, names...)
}

// firstChangedOf returns the first of some flags that the user has set, "" for none.
func firstChangedOf(flags *pflag.FlagSet, names ...string) string {
	for _, name := range names {
		if flags.Changed(name) {
			return name
		}
	}
	return ""
}

// process returns the demand of a family with the given mean, in multiples of the quota.
func (f *distributionOptions) process(known family, mean float64) (demand.Process, error) {
	p, err := known.make(f, mean)
	if err != nil {
		return nil, frame.Usagef("--distribution %s --mean %v: %w", known.name, quantity.Share(mean), err)
	}
	if mean >= 1 {
		return nil, frame.Usagef("--mean %v: %s", quantity.Share(mean), unstable(mean, "ask about a mean below 100%"))
	}
	return p, nil
}

// unstable describes what happens to a group whose mean demand is at least its quota, and what to
// do.
func unstable(mean float64, advice string) string {
	what := fmt.Sprintf("its backlog grows by %s of the quota per period, without end", quantity.Share(mean-1))
	if mean == 1 {
		what = "it never makes up for a backlog, which grows without end"
	}
	return "there is no stationary state, as " + what + "; " + advice
}

// label describes the demand of a family with its parameters.
func (f *distributionOptions) label(known family) string {
	var parameters []string
	for _, name := range known.parameters {
		flag := f.flags.Lookup(name)
		switch {
		case name == "shape" && !flag.Changed:
			parameters = append(parameters, fmt.Sprintf("shape %v", known.defaultShape))
		case name != "bound" || flag.Changed:
			parameters = append(parameters, name+" "+flag.Value.String())
		}
	}
	label := strings.ToUpper(known.name[:1]) + known.name[1:] + " demand"
	if len(parameters) > 0 {
		label += " (" + strings.Join(parameters, ", ") + ")"
	}
	return label
}
