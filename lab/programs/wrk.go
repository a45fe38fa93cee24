package programs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// WrkLoad is a load that wrk puts on a web server: each connection sends the next request when the
// previous one is answered.
type WrkLoad struct {
	URL         string
	Threads     int           // at least 1
	Connections int           // in total, at least as many as threads
	Duration    time.Duration // rounded up to seconds
}

// wrkTimeout is the longest latency that wrk records, 2 s if it is not set. wrk reserves 8
// bytes of address space per microsecond.
const wrkTimeout = 10 * time.Second

// Args returns the arguments of wrk. Its output is read by [ParseWrk].
func (l WrkLoad) Args() ([]string, error) {
	if l.Threads < 1 || l.Connections < l.Threads || l.Duration <= 0 {
		return nil, fmt.Errorf("wrk with %d threads and %d connections for %v: want at least 1 thread, a connection per thread and a positive duration",
			l.Threads, l.Connections, l.Duration)
	}
	seconds := int(math.Ceil(l.Duration.Seconds()))
	return []string{
		"--threads", strconv.Itoa(l.Threads), "--connections", strconv.Itoa(l.Connections),
		"--duration", strconv.Itoa(seconds) + "s",
		"--timeout", fmt.Sprintf("%.0fs", wrkTimeout.Seconds()), "--latency", l.URL,
	}, nil
}

// WrkResult is what wrk measured. Latencies are those of complete responses of any status, except
// those counted by Timeouts.
type WrkResult struct {
	Requests  uint64
	PerSecond float64 // requests

	Mean, Max          time.Duration // latency
	P50, P75, P90, P99 time.Duration // percentiles of latency

	ConnectErrors, ReadErrors, WriteErrors uint64 // of sockets
	Timeouts                               uint64 // responses later than 10 s
	BadStatus                              uint64 // responses with a status that is neither 2xx nor 3xx
}

// ParseWrk reads the output of wrk with the option --latency.
func ParseWrk(r io.Reader) (WrkResult, error) {
	var result WrkResult
	found := map[string]bool{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		kind, err := result.parseLine(line)
		if err != nil {
			return WrkResult{}, fmt.Errorf("read the output of wrk: line %q: %w", line, err)
		}
		found[kind] = true
	}
	if err := lines.Err(); err != nil {
		return WrkResult{}, fmt.Errorf("read the output of wrk: %w", err)
	}
	for _, kind := range []string{"Latency", "50%", "75%", "90%", "99%", "requests", "Requests/sec:"} {
		if !found[kind] {
			return WrkResult{}, fmt.Errorf("read the output of wrk: %q is missing: wrk failed, or ran without --latency", kind)
		}
	}
	return result, nil
}

// parseLine reads one line and returns its kind, or "" if the line is not used.
func (w *WrkResult) parseLine(line string) (kind string, err error) {
	fields := strings.Fields(line)
	switch {
	case len(fields) == 5 && fields[0] == "Latency":
		if w.Mean, err = parseDuration(fields[1]); err == nil {
			w.Max, err = parseDuration(fields[3])
		}
		return fields[0], err
	case len(fields) == 2 && strings.HasSuffix(fields[0], "%"):
		return fields[0], w.parsePercentile(fields[0], fields[1])
	case len(fields) == 6 && fields[1] == "requests":
		w.Requests, err = strconv.ParseUint(fields[0], 10, 64)
		return fields[1], err
	case len(fields) == 2 && fields[0] == "Requests/sec:":
		w.PerSecond, err = strconv.ParseFloat(fields[1], 64)
		if err == nil && (w.PerSecond < 0 || math.IsNaN(w.PerSecond) || math.IsInf(w.PerSecond, 0)) {
			err = errors.New("the rate is not a number of at least 0")
		}
		return fields[0], err
	case strings.HasPrefix(line, "Socket errors:"):
		_, err = fmt.Sscanf(line, "Socket errors: connect %d, read %d, write %d, timeout %d",
			&w.ConnectErrors, &w.ReadErrors, &w.WriteErrors, &w.Timeouts)
	case strings.HasPrefix(line, "Non-2xx or 3xx responses:"):
		_, err = fmt.Sscanf(line, "Non-2xx or 3xx responses: %d", &w.BadStatus)
	}
	return "", err
}

func (w *WrkResult) parsePercentile(percent, latency string) error {
	values := map[string]*time.Duration{"50%": &w.P50, "75%": &w.P75, "90%": &w.P90, "99%": &w.P99}
	value, ok := values[percent]
	if !ok {
		return errors.New("not a percentile that wrk prints")
	}
	var err error
	*value, err = parseDuration(latency)
	return err
}

// parseDuration reads a duration with one unit: us, ms, s, m or h.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("duration %s is negative", text)
	}
	return d, err
}
