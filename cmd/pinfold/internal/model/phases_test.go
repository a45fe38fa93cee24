package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/race"
)

// TestSameShare asks advise and simulate about the same recording: how much of the time
// its limit throttles. Each request takes more than the quota and comes in step with the periods.
// So it throttles all or nothing, depending on when the kernel's periods begin, which is not known.
func TestSameShare(t *testing.T) {
	var text strings.Builder
	text.WriteString("time,group,interval_ns,usage_ns,quota_ns,period_ns\n")
	r := rand.New(rand.NewPCG(1, 1))
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for range 3000 {
		comes := r.IntN(2)
		for _, usage := range []int{0, 0, 20, 20, 20} {
			at = at.Add(20 * time.Millisecond)
			fmt.Fprintf(&text, "%s,/web,20000000,%d,52000000,100000000\n", at.Format(time.RFC3339Nano), comes*usage*int(time.Millisecond))
		}
	}
	file := recorded(t, text.String())
	var advice struct {
		Containers []struct {
			Burst struct{ ThrottleRatioWithout float64 }
		}
	}
	ask(t, NewAdvise(), &advice, file)
	want := advice.Containers[0].Burst.ThrottleRatioWithout
	if want < 0.3 || want > 0.48 { // 0.5 in one phase
		t.Errorf("advise: %v", want)
	}
	for _, order := range []string{"blocks", "replay", "independent"} {
		var simulated []struct{ ThrottleRatio, ThrottleRatioStandardError float64 }
		ask(t, NewSimulate(), &simulated, file, "--burst", "0", "--order", order, "--periods", "500000")
		s := simulated[0]
		if math.Abs(s.ThrottleRatio-want) > 0.02+3*s.ThrottleRatioStandardError {
			t.Errorf("simulate --order %s: %v ± %v, advise: %v", order, s.ThrottleRatio, s.ThrottleRatioStandardError, want)
		}
	}
}

// recorded writes a recording and returns its name.
func recorded(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.csv")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// ask runs a command that answers in JSON.
func ask(t *testing.T, cmd *cobra.Command, answer any, args ...string) {
	t.Helper()
	var out bytes.Buffer
	cmd.SetArgs(append(args, "-o", "json"))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	must.Do(t, cmd.ExecuteContext(t.Context()))
	must.Do(t, json.Unmarshal(out.Bytes(), answer))
}

// TestSameNode asks advise how many containers fit on a node, and simulate, which is told the limit,
// whether as many do and one more does not; and both how often the limit throttles. Demand is random
// and lasts for several periods; in one recording it waited for CPUs. The larger a burst, the less
// simulate delays.
func TestSameNode(t *testing.T) {
	race.SkipLong(t)
	for seed, waited := range map[uint64]time.Duration{0: 0, 1: 0, 2: 4 * time.Millisecond} {
		file := recorded(t, waves(seed, waited))
		var advised struct {
			Containers []struct {
				LimitWithBurst struct{ LimitCPUs, LowThrottleRatio, HighThrottleRatio float64 }
				Node           struct {
					Fits           struct{ Containers int }
					HighContainers int
				}
			}
		}
		ask(t, NewAdvise(), &advised, file, "--node-cpus", "4")
		limit, node := advised.Containers[0].LimitWithBurst, advised.Containers[0].Node
		flags := []string{file, "--limit", quantity.CPUs(limit.LimitCPUs).Fixed(), "--periods", "200000", "--burst"}
		var simulated []struct {
			ProbabilityWCET1, ProbabilityWCET1StandardError, ThrottleRatio, Backlog float64
			Warnings                                                                []string
		}
		ask(t, NewSimulate(), &simulated, append(flags, "0,10%,50%,100%,inf")...)
		if said := strings.Contains(fmt.Sprint(simulated[0].Warnings), "it waited for CPUs for "); said != (waited > 0) {
			t.Errorf("seed %d, which waited for %v in each period: %q", seed, waited, simulated[0].Warnings)
		}
		if got := simulated[3].ThrottleRatio; got < limit.LowThrottleRatio || got > limit.HighThrottleRatio {
			t.Errorf("seed %d: simulate throttles %v with the advised limit, advise says %v to %v", seed, got, limit.LowThrottleRatio, limit.HighThrottleRatio)
		}
		for i := range simulated[1:] {
			if less, more := simulated[i], simulated[i+1]; more.Backlog > less.Backlog || more.ThrottleRatio > less.ThrottleRatio || more.ProbabilityWCET1 != 1 {
				t.Errorf("seed %d: more burst is worse: %+v, then %+v", seed, less, more)
			}
		}
		for _, c := range []struct {
			containers int
			safe       bool
		}{{node.Fits.Containers, true}, {node.HighContainers + 1, false}} {
			ask(t, NewSimulate(), &simulated, append(flags, "100%", "--cpus", "4", "--cgroups", fmt.Sprint(c.containers))...)
			p := simulated[0]
			if off := 3 * p.ProbabilityWCET1StandardError; c.safe && p.ProbabilityWCET1 < interference.Safe-off || !c.safe && p.ProbabilityWCET1 > interference.Safe+off {
				t.Errorf("seed %d: advise says that %d of up to %d containers fit; simulate has %v of the periods in time with %d", seed, node.Fits.Containers, node.HighContainers, p.ProbabilityWCET1, c.containers)
			}
		}
	}
}

// waves returns a recording without a limit, whose demand is random and correlated.
func waves(seed uint64, waited time.Duration) string {
	var text strings.Builder
	text.WriteString("time,group,interval_ns,usage_ns,waited_ns\n")
	r := rand.New(rand.NewPCG(seed, 1))
	at, level := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), 0.0
	for range 3000 {
		at = at.Add(100 * time.Millisecond)
		if r.IntN(4) == 0 {
			level = r.ExpFloat64() * 15
		}
		fmt.Fprintf(&text, "%s,/web,100000000,%d,%d\n", at.Format(time.RFC3339Nano), int((level+5*r.Float64())*float64(time.Millisecond)), waited)
	}
	return text.String()
}
