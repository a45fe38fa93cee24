package api

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/test/must"
)

const someCeilings = `
default:
  exclusiveCPUs: {perPod: 8, perNamespace: 64}
  burst: {policy: burst, quotaPercent: 200}
  period: {min: 10ms, max: 100ms}
namespaces:
  team-a: {exclusiveCPUs: {perPod: 32}, burst: {policy: auto}}
  team-b: {exclusiveCPUs: {perPod: 0}, burst: {policy: none}, period: {max: 1s}}
`

func TestCeilingsOfNamespaces(t *testing.T) {
	c := mustParseCeilings(t, someCeilings)
	type resolved struct {
		perPod, perNamespace int
		burst                burst.Policy
		shortest, longest    time.Duration
	}
	for namespace, want := range map[string]resolved{
		"other":  {8, 64, policyOf(burst.Kernel, 1000, 200, 60), 10 * time.Millisecond, 100 * time.Millisecond},
		"team-a": {32, 64, policyOf(burst.Auto, 1000, 200, 60), 10 * time.Millisecond, 100 * time.Millisecond},
		"team-b": {0, 64, policyOf(burst.None, 1000, 200, 60), 10 * time.Millisecond, time.Second},
	} {
		of := c.For(namespace)
		got := resolved{*of.ExclusiveCPUs.PerPod, *of.ExclusiveCPUs.PerNamespace, of.Burst.Policy, of.Period.Min.Duration, of.Period.Max.Duration}
		if got != want {
			t.Errorf("%s: %+v, want %+v", namespace, got, want)
		}
	}
	for name, none := range map[string]*Ceilings{"nil": nil, "zero": {}} {
		if got := none.For("any"); !reflect.DeepEqual(got, BuiltInCeiling()) {
			t.Errorf("%s ceilings: %+v", name, got)
		}
	}
}

func policyOf(mode burst.Mode, burstPercent, quotaPercent, seconds int) burst.Policy {
	return burst.Policy{Mode: mode, BurstPercent: burstPercent, QuotaPercent: quotaPercent, QuotaBurstSeconds: seconds}
}

func TestCeilingsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"default: {exclusiveCPU: {perPod: 8}}":                                   `unknown field "default.exclusiveCPU"`,
		"default: {exclusiveCPUs: {perpod: 8}}":                                  `unknown field "default.exclusiveCPUs.perpod"`,
		"default: {}\ndefault: {}":                                               `"default" already set in map`,
		"namespaces: {a: {}, a: {}}":                                             `"a" already set in map`,
		"default: {exclusiveCPUs: {perPod: -1}}":                                 "default.exclusiveCPUs.perPod -1: it must be 0 or more",
		"default: {exclusiveCPUs: {perPod: many}}":                               "it must not be a JSON string",
		"default: {burst: {percent: 5}}":                                         `unknown field "percent"`,
		"default: {burst: {burstPercent: 0}}":                                    "burstPercent 0: it must be 1 to 10000",
		"default: {period: {min: 10}}":                                           "it must not be a JSON number",
		"default: {period: {min: 1us}}":                                          "default.period.min 1µs: it must be a duration from",
		"default: {period: {min: 1s, max: 1ms}}":                                 "default.period: min 1s is above max 1ms",
		"default: {period: {min: 20ms}}\nnamespaces: {a: {period: {max: 10ms}}}": "namespaces.a.period: min 20ms is above max 10ms",
		"8": "it must not be a JSON number",
	} {
		if _, err := ParseCeilings([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nis refused with %v, want %q", text, err, want)
		}
	}
}

func TestCapBurst(t *testing.T) {
	for _, mode := range burst.Modes() { // BuiltInCeiling permits them all
		if got, says := new(Ceiling).CapBurst(burst.Policy{Mode: mode}); got.Mode != mode || says != "" {
			t.Errorf("%s without a ceiling: %+v, %q", mode, got, says)
		}
	}
	for _, test := range []struct{ ceiling, asked, got, says string }{
		{`{}`, `{"policy":"auto","quotaPercent":10000,"quotaBurstSeconds":3600}`, `{"policy":"auto","quotaPercent":300,"quotaBurstSeconds":60}`,
			"cpu-burst asks for more than the administrator allows: quotaPercent 10000 (allowed: 300), quotaBurstSeconds 3600 (allowed: 60)"},
		{`{}`, `{"policy":"auto","quotaBurstSeconds":-1}`, `{"policy":"auto","quotaBurstSeconds":60}`, "quotaBurstSeconds -1 (allowed: 60)"},
		{`{quotaBurstSeconds: -1}`, `{"policy":"auto","quotaBurstSeconds":3600}`, `{"policy":"auto","quotaBurstSeconds":3600}`, ""},
		{`{quotaBurstSeconds: -1}`, `{"policy":"auto","quotaBurstSeconds":-1}`, `{"policy":"auto","quotaBurstSeconds":-1}`, ""},
		{`{policy: none}`, `{"policy":"auto","burstPercent":100}`, `{"policy":"none"}`, "policy auto (allowed: none)"},
		{`{policy: none}`, `{"policy":"none","burstPercent":5000}`, `{"policy":"none","burstPercent":5000}`, ""},
		{`{policy: burst}`, `{"policy":"auto"}`, `{"policy":"burst"}`, "policy auto (allowed: burst)"},
		{`{burstPercent: 50}`, `{"policy":"burst","burstPercent":100}`, `{"policy":"burst","burstPercent":50}`, "burstPercent 100 (allowed: 50)"},
	} {
		ceiling := mustParseCeilings(t, "default: {burst: "+test.ceiling+"}").For("any")
		got, says := ceiling.CapBurst(must.Get(readBurst(test.asked))(t))
		if want := must.Get(readBurst(test.got))(t); got != want || (says == "") != (test.says == "") || !strings.Contains(says, test.says) {
			t.Errorf("%s under %s: %+v, %q; want %+v, %q", test.asked, test.ceiling, got, says, want, test.says)
		}
	}
}

func TestCapPeriod(t *testing.T) {
	ceiling := mustParseCeilings(t, someCeilings).For("any")
	for asked, want := range map[time.Duration]time.Duration{0: 0, time.Millisecond: 10 * time.Millisecond, time.Second: 100 * time.Millisecond, 20 * time.Millisecond: 20 * time.Millisecond} {
		got, says := ceiling.CapPeriod(asked)
		if got != want || (says != "") != (got != asked) || says != "" && !strings.Contains(says, asked.String()+", and the administrator allows 10ms to 100ms") {
			t.Errorf("%v: %v, %q; want %v", asked, got, says, want)
		}
	}
}

func TestCPUCeiling(t *testing.T) {
	of := mustParseCeilings(t, someCeilings).For("any")
	c := of.ExclusiveCPUs
	for _, test := range []struct {
		err  error
		says string
	}{
		{c.CheckPod(8), ""},
		{c.CheckPod(9), "the pod asks for 9 exclusive CPUs: the administrator allows 8 per pod in its namespace"},
		{c.CheckNamespace(8, 56), ""},
		{c.CheckNamespace(0, 100), ""},
		{c.CheckNamespace(8, 57), "the pod asks for 8 exclusive CPUs and its namespace has or wants 57: the administrator allows the namespace 64"},
		{new(CPUCeiling).CheckPod(1000), ""},
		{new(CPUCeiling).CheckNamespace(1000, 1000), ""},
	} {
		if test.err == nil && test.says != "" || test.err != nil && test.err.Error() != test.says {
			t.Errorf("%v, want %q", test.err, test.says)
		}
	}
}

// FuzzCeilings: parsed ceilings are within the kernel's bounds and can be encoded and parsed again,
// and capping twice changes nothing.
func FuzzCeilings(f *testing.F) {
	f.Add([]byte(someCeilings), "auto", 10000, 10000, -1, int64(time.Second))
	f.Add([]byte(`{"default":{"burst":{"quotaBurstSeconds":-1}}}`), "quota", 0, 0, 3600, int64(0))
	f.Add([]byte("default: {period: {min: 20ms}}\nnamespaces: {any: {period: {max: 10ms}}}"), "burst", 1, 100, 0, int64(time.Millisecond))
	f.Fuzz(func(t *testing.T, text []byte, mode string, burstPercent, quotaPercent, seconds int, period int64) {
		c, err := ParseCeilings(text)
		if err != nil {
			return
		}
		written := must.Get(json.Marshal(c))(t)
		if again, err := ParseCeilings(written); err != nil || !reflect.DeepEqual(again.For("any"), c.For("any")) {
			t.Fatalf("%q was read as %s, which is read as %+v, %v", text, written, again, err)
		}
		of := c.For("any")
		got, _ := of.CapBurst(policyOf(burst.Mode(mode), burstPercent, quotaPercent, seconds))
		if again, says := of.CapBurst(got); again != got || says != "" {
			t.Fatalf("%+v is capped to %+v: %s", got, again, says)
		}
		capped, _ := of.CapPeriod(time.Duration(period))
		if again, says := of.CapPeriod(capped); again != capped || says != "" || capped != 0 && (capped < bandwidth.MinPeriod || capped > bandwidth.MaxPeriod) {
			t.Fatalf("period %v is capped to %v: %s", capped, again, says)
		}
	})
}

func mustParseCeilings(t *testing.T, text string) *Ceilings {
	t.Helper()
	c := must.Get(ParseCeilings([]byte(text)))(t)
	return &c
}
