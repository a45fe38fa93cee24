package advice

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/race"
)

// TestRecorded advises on a real service, which was recorded as testdata/recorded says. Its limit is
// known to suffice: each piece of advice has it in its interval, or names it as possible, and
// predicts what the kernel counted under it.
//
// The section "recording" has the limit, and then samples of 20 ms. Their numbers are tenths of a
// millisecond: "USAGE", with "+THROTTLED" and "xPERIODS" where the group was throttled, "~WAITED"
// where a thread waited, and "LENGTH:" before it if that is not 200.
func TestRecorded(t *testing.T) {
	race.SkipLong(t)
	const right, counted = .67, 4. / 1050
	golden.Archives(t, "testdata/recorded/*.txtar", "want", func(t *testing.T, archive *txtar.Archive) string {
		s := readSamples(t, string(archive.Files[0].Data))
		c, err := ForContainer(t.Context(), s, 20*time.Millisecond, DefaultGoal(), seeded(1))
		if err != nil {
			t.Fatal(err)
		}
		l := c.LimitWithBurst
		if !l.Enough {
			var waited, low, high float64
			if _, err := fmt.Sscanf(l.Reason, "not enough data: it waited for CPUs for %g%% of its run time, so it needs between %g and %g CPUs", &waited, &low, &high); err != nil || low > right || high < right {
				t.Errorf("%s: want %v CPUs to be possible (%v)", l.Reason, right, err)
			}
			return l.Reason + "\n"
		}
		if l.LowCPUs > right || l.HighCPUs < right-.02 || l.LimitCPUs <= right && (l.LowThrottleRatio > counted || l.HighThrottleRatio < counted) {
			t.Errorf("%+v: want %v CPUs, which throttle %v", l, right, counted)
		}
		return strings.Join(append([]string{l.Reason}, c.Warnings...), "\n") + "\n"
	})
}

func readSamples(t *testing.T, text string) *trace.Series {
	t.Helper()
	number := func(text string) time.Duration {
		return time.Duration(must.Get(strconv.Atoi(text))(t)) * time.Millisecond / 10
	}
	s := &trace.Series{Group: "/service"}
	limits := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}
	for i, word := range strings.Fields(text)[1:] {
		if i == 0 {
			if cpus, err := strconv.ParseFloat(word, 64); err == nil {
				limits.Quota = time.Duration(cpus * float64(period))
			}
			continue
		}
		sample := trace.Sample{Interval: 20 * time.Millisecond, Limits: limits}
		if length, rest, ok := strings.Cut(word, ":"); ok {
			sample.Interval, word = number(length), rest
			sample.Late = sample.Interval > 25*time.Millisecond
		}
		word, waited, _ := strings.Cut(word, "~")
		word, throttled, _ := strings.Cut(word, "+")
		throttled, periods, _ := strings.Cut(throttled, "x")
		sample.Usage, sample.Waited, sample.ThrottledTime = number(word), number("0"+waited), number("0"+throttled)
		sample.Throttled = uint32(must.Get(strconv.Atoi("0" + periods))(t))
		if n := len(s.Samples); n > 0 {
			sample.At = s.Samples[n-1].At
		}
		sample.At += sample.Interval
		s.Samples = append(s.Samples, sample)
	}
	return s
}
