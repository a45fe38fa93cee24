package frame

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// Var adds a flag of any type: parse reads its value, [fmt.Sprint] prints it, and kind names it in
// the help. The help omits a default that prints as "" or "0".
func Var[T any](flags *pflag.FlagSet, p *T, name, kind, usage string, parse func(string) (T, error)) {
	flags.Var(&value[T]{p, kind, parse}, name, usage)
}

type value[T any] struct {
	p     *T
	kind  string
	parse func(string) (T, error)
}

func (v *value[T]) Type() string   { return v.kind }
func (v *value[T]) String() string { return fmt.Sprint(*v.p) }
func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.p = parsed
	}
	return err
}

// List is a flag of several values, separated by commas. When it is repeated, values are added.
type List[T any] struct {
	Each    []T
	parse   func(string) (T, error)
	kind    string
	text    string
	changed bool // Each does not contain the defaults
}

// NewList returns a list flag. The defaults apply until the flag is given.
func NewList[T any](kind, defaults string, parse func(string) (T, error)) *List[T] {
	l := &List[T]{parse: parse, kind: kind}
	if defaults != "" {
		if err := l.Set(defaults); err != nil {
			panic(err) // defaults are constants
		}
		l.changed = false
	}
	return l
}

// Type returns the name of the values in the help.
func (l *List[T]) Type() string   { return l.kind }
func (l *List[T]) String() string { return l.text }

// Set adds values.
func (l *List[T]) Set(text string) error {
	var added []T
	for word := range strings.SplitSeq(text, ",") {
		value, err := l.parse(strings.TrimSpace(word))
		if err != nil {
			return err
		}
		added = append(added, value)
	}
	if !l.changed {
		l.Each, l.text, l.changed = nil, "", true
	}
	l.Each = append(l.Each, added...)
	l.text = strings.TrimPrefix(l.text+","+text, ",")
	return nil
}

// OneOf adds a flag that accepts the given words. The first is the default. --output is also -o.
func OneOf[T ~string](flags *pflag.FlagSet, p *T, name, usage string, words ...T) {
	*p = words[0]
	var kind []string
	for _, word := range words {
		kind = append(kind, string(word))
	}
	flag := &value[T]{p, strings.Join(kind, "|"), func(text string) (T, error) {
		if !slices.Contains(kind, text) {
			return "", fmt.Errorf("must be %s", strings.Join(kind, " or "))
		}
		return T(text), nil
	}}
	short := ""
	if name == "output" {
		short = "o"
	}
	flags.VarP(flag, name, short, usage)
}

// Needs returns an error if one of the flags was given without the flag that it is about.
func Needs(flags *pflag.FlagSet, needed string, dependent ...string) error {
	f := flags.Lookup(needed)
	for _, name := range dependent {
		if flags.Changed(name) && (!f.Changed || f.Value.String() == "false") {
			return Usagef("--%s has no effect without --%s: give both", name, needed)
		}
	}
	return nil
}

// ParseCount parses a whole number of at least 1.
func ParseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("must be a whole number, 1 or more")
	}
	return n, nil
}

// NumberVar adds a flag that takes a number which is no share.
func NumberVar(flags *pflag.FlagSet, p *float64, name, kind, usage string) {
	Var(flags, p, name, kind, usage, func(text string) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return 0, errors.New("must be a number such as 2 or 0.5")
		}
		return x, nil
	})
}

// ShareVar adds a flag that takes a share of at most most as [quantity.ParseShare] reads it.
func ShareVar(flags *pflag.FlagSet, p *float64, most float64, name, usage string) {
	Var(flags, (*share)(p), name, "SHARE", usage, func(text string) (share, error) {
		x, err := quantity.ParseShare(text, quantity.Share(most))
		return share(x), err
	})
}

// PercentVar adds a flag whose name says that it is in percent, as [quantity.ParsePercent] reads it.
func PercentVar[T int | float64](flags *pflag.FlagSet, p *T, name, usage string) {
	Var(flags, p, name, "PERCENT", usage, func(text string) (T, error) {
		x, err := quantity.ParsePercent(text)
		if err == nil && float64(T(x)) != x {
			err = errors.New("must be a whole percentage such as 5%")
		}
		return T(x), err
	})
}

// share prints so that it parses as the same value.
type share float64

func (s share) String() string {
	if s == 0 {
		return "0"
	}
	return quantity.Share(s).Text()
}

// ParsePart parses a share of at most 100%.
func ParsePart(text string) (quantity.Share, error) { return quantity.ParseShare(text, 1) }

// ParseBurst parses a share of the quota, or "inf".
func ParseBurst(text string) (report.Burst, error) {
	if strings.EqualFold(text, "inf") {
		return report.Burst(math.Inf(1)), nil
	}
	share, err := quantity.ParseShare(text, quantity.Share(math.Inf(1)))
	if err != nil {
		err = fmt.Errorf("%w; or inf for an unlimited burst", err)
	}
	return report.Burst(share), err
}

// maxAmount exceeds the CPUs of any machine: [cpuset.MaxCPUs] is 1,024.
const maxAmount ledger.MilliCPU = 100_000 * 1000

var errAmount = errors.New("must be a number of CPUs above 0 with at most three places, such as 0.5 or 4, or thousandths of one, such as 500m")

// ParseAmount parses an amount of CPU as Kubernetes writes it: DIGITS[.DIGITS] or DIGITSm.
func ParseAmount(text string) (ledger.MilliCPU, error) {
	digits, milli := strings.CutSuffix(text, "m")
	if !milli {
		whole, fraction, point := strings.Cut(text, ".")
		if whole == "" || point && fraction == "" || len(fraction) > 3 {
			return 0, errAmount
		}
		digits = whole + (fraction + "000")[:3]
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n == 0 || n > uint64(maxAmount) {
		return 0, errAmount
	}
	return ledger.MilliCPU(n), nil
}

// Quota returns the CPU time that a limit allows in a period of at most one second, rounded to the
// kernel's resolution of one microsecond.
func Quota(limit ledger.MilliCPU, period time.Duration) time.Duration {
	return time.Duration((int64(limit)*period.Microseconds()+500)/1000) * time.Microsecond
}

// MinLimit returns the lowest limit that the kernel accepts: its quota is 1 ms.
func MinLimit(period time.Duration) ledger.MilliCPU {
	return ledger.MilliCPU(math.Ceil(1000 * float64(time.Millisecond) / float64(period)))
}
