package throttling

import (
	"encoding/json"
	"io"
	"math"
	"time"
)

// rowJSON is the JSON form of a row. Unknown values are omitted: throttling without a limit or a
// group, latencies without an answer.
type rowJSON struct {
	Name       string         `json:"name"`
	Requests   int            `json:"requests"`
	Failed     map[string]int `json:"failed,omitempty"`
	Mean       *float64       `json:"meanMilliseconds,omitempty"`
	P50        *float64       `json:"p50Milliseconds,omitempty"`
	P99        *float64       `json:"p99Milliseconds,omitempty"`
	Longest    *float64       `json:"longestMilliseconds,omitempty"`
	Lateness   float64        `json:"latenessMilliseconds"`
	Duration   float64        `json:"durationMilliseconds"`
	Throttling *countedJSON   `json:"throttling,omitempty"`
}

// countedJSON contains the kernel's counters.
type countedJSON struct {
	Limit          float64 `json:"limitCPUs"`
	Periods        uint64  `json:"timerPeriods"`
	Throttled      uint64  `json:"throttledPeriods"`
	OfTimerPeriods float64 `json:"throttledShareOfTimerPeriods"`
	OfWallPeriods  float64 `json:"throttledShareOfWallPeriods"`
	ThrottledTime  float64 `json:"throttledMilliseconds"`
	Bursts         *uint64 `json:"bursts,omitempty"` // absent on kernels before 5.16
	Used           float64 `json:"usageShareOfLimit"`
}

// WriteJSON writes rows as a JSON array.
func WriteJSON(w io.Writer, rows []Row) error {
	list := make([]rowJSON, len(rows))
	for i, r := range rows {
		list[i] = rowJSON{
			Name: r.Name, Requests: r.Load.Sent, Failed: r.Load.Failures,
			Lateness: inMilliseconds(r.Load.Lateness), Duration: inMilliseconds(r.Wall), Throttling: r.counted(),
		}
		if len(r.Load.Latencies) > 0 {
			list[i].Mean, list[i].P50 = new(inMilliseconds(r.Load.Mean())), new(inMilliseconds(r.Load.Quantile(0.5)))
			list[i].P99, list[i].Longest = new(inMilliseconds(r.Load.Quantile(0.99))), new(inMilliseconds(r.Load.Quantile(1)))
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(list)
}

// counted returns the kernel's counters, nil without a limit.
func (r Row) counted() *countedJSON {
	if r.Limit.Quota <= 0 {
		return nil
	}
	c := &countedJSON{
		Limit: float64(r.Limit.Quota) / float64(r.Limit.Period), Periods: r.Counted.Periods, Throttled: r.Counted.Throttled,
		OfTimerPeriods: rounded(r.OfTimerPeriods()), OfWallPeriods: rounded(r.OfWallPeriods()),
		ThrottledTime: inMilliseconds(r.Counted.ThrottledTime), Used: rounded(r.Used()),
	}
	if !r.Counted.NoBursts {
		c.Bursts = &r.Counted.Bursts
	}
	return c
}

// inMilliseconds converts d, rounded to a microsecond.
func inMilliseconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond).Microseconds()) / 1000
}

func rounded(share float64) float64 { return math.Round(share*1e4) / 1e4 }
