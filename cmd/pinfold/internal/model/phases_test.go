package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// TestSameShare asks advise, simulate and throttle about the same recording: how much of the time
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
	file := filepath.Join(t.TempDir(), "web.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	answer := func(cmd *cobra.Command, answer any, args ...string) {
		t.Helper()
		var out bytes.Buffer
		cmd.SetArgs(append(args, file, "-o", "json"))
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err, out.String())
		}
		start := strings.IndexAny(out.String(), "[{") // after notes
		if err := json.NewDecoder(strings.NewReader(out.String()[start:])).Decode(answer); err != nil {
			t.Fatal(err, out.String())
		}
	}
	var advice struct {
		Containers []struct {
			Burst struct{ ThrottleRatioWithout float64 }
		}
	}
	answer(NewAdvise(), &advice)
	want := advice.Containers[0].Burst.ThrottleRatioWithout
	if want < 0.3 || want > 0.48 { // 0.5 in one phase
		t.Errorf("advise: %v", want)
	}
	var throttled []struct{ Probability float64 }
	answer(NewThrottle(), &throttled, "--burst", "0")
	if got := throttled[0].Probability; math.Abs(got-want) > 0.02 {
		t.Errorf("throttle: %v, advise: %v", got, want)
	}
	for _, order := range []string{"blocks", "replay", "independent"} {
		var simulated []struct{ ThrottleRatio, ThrottleRatioStandardError float64 }
		answer(NewSimulate(), &simulated, "--burst", "0", "--order", order, "--periods", "500000")
		s := simulated[0]
		if math.Abs(s.ThrottleRatio-want) > 0.02+3*s.ThrottleRatioStandardError {
			t.Errorf("simulate --order %s: %v ± %v, advise: %v", order, s.ThrottleRatio, s.ThrottleRatioStandardError, want)
		}
	}
}
