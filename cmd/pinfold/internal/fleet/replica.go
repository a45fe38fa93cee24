package fleet

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/verdict"
)

// replica is what was read about a container of a pod.
type replica struct {
	container
	windows []verdict.Window
	last    model.Time // of its counters
	limit   float64    // the last one that is known
	period  float64    // of enforcement, in seconds; 0 if it is not known

	measured verdict.Measured
}

// judge returns the verdict on replicas. It is about the limit of those that were seen last: what others did
// under another one is left out.
func (r *Request) judge(all []replica, facts *facts) verdict.Verdict {
	slices.SortFunc(all, func(a, b replica) int { return cmp.Compare(b.last, a.last) })
	now := all[:1]
	for now[0].last-all[min(len(now), len(all)-1)].last <= model.Time(2*r.Step()/time.Millisecond) && len(now) < len(all) {
		now = all[:len(now)+1]
	}
	unlimited := !slices.ContainsFunc(now, func(o replica) bool { return !facts.unlimited[o.container] })
	ofPod := slices.ContainsFunc(now, func(o replica) bool { return facts.ofPod[container{namespace: o.namespace, pod: o.pod}] })
	limit := now[0].limit
	differ := slices.ContainsFunc(now, func(o replica) bool { return o.limit != limit })
	var windows []verdict.Window
	for i := range all {
		for _, w := range all[i].windows {
			if w.Limit == 0 || w.Limit == limit || differ {
				windows = append(windows, w)
			}
		}
	}
	measured := verdict.Measured{Limits: verdict.Counts{}, CPUs: verdict.Counts{}}
	for i := range all {
		measured.Limits.Add(all[i].measured.Limits)
		measured.CPUs.Add(all[i].measured.CPUs)
	}
	v := verdict.OfMeasured(windows, measured, r.Goal)
	unknown := func(why string) verdict.Verdict {
		return verdict.Verdict{Action: verdict.Unknown, Reason: why, CPUs: v.CPUs, Time: v.Time}
	}
	if n, worst := len(now), worst(now); v.Action == verdict.Fine && worst > r.Goal {
		v.Reason += fmt.Sprintf(", and one of its %d replicas in %s", n, quantity.Share(worst))
	}
	period := now[0].period
	switch {
	case unlimited && v.Throttled == nil && ofPod:
		return unknown("it has no limit of its own, and its pod has one")
	case unlimited && (v.Throttled == nil || limit == 0):
		v.Action, v.Reason, v.Throttled, v.Limit = verdict.NoLimit, "it has no limit, so it is not throttled", nil, 0
	case differ:
		return unknown("its replicas have different limits")
	case period != 0 && math.Abs(period-verdict.Period.Seconds()) > 1e-9:
		return unknown(fmt.Sprintf("its enforcement period is %v, and verdicts are about %v", time.Duration(period*float64(time.Second)), verdict.Period))
	}
	return v
}

// worst returns the largest share of throttled periods of a replica.
func worst(all []replica) (worst float64) {
	for i := range all {
		var throttled, periods float64
		for _, w := range all[i].windows {
			if w.Counted && w.Limit == all[i].limit {
				throttled, periods = throttled+w.Throttled, periods+w.Time.Seconds()/verdict.Period.Seconds()
			}
		}
		if periods > 0 {
			worst = max(worst, throttled/periods)
		}
	}
	return worst
}

// newReplica makes windows of the counters of a container, from one reading to the next. A window during
// which one began anew is left out, as is a long one.
func newReplica(c container, of func(string) []model.SamplePair, step time.Duration) replica {
	at := func(name string) map[model.Time]float64 {
		points := of(name)
		values := make(map[model.Time]float64, len(points))
		for _, p := range points {
			if v := float64(p.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
				values[p.Timestamp] = v
			}
		}
		return values
	}
	one := replica{container: c}
	usage, times := of("usage"), at("time")
	read := func(p model.SamplePair) model.Time { // when a point was read
		if t, known := times[p.Timestamp]; known {
			return model.TimeFromUnixNano(int64(t * 1e9))
		}
		return p.Timestamp
	}
	ran, cut, burst, started, period := at("periods"), at("throttled"), at("bursts"), at("started"), at("period")
	// The limit that was written is better than the one that is set, because the agent raises quotas.
	limit := at("limit")
	for at, quota := range at("quota") {
		if _, written := limit[at]; !written && quota > 0 && period[at] > 0 {
			limit[at] = quota / period[at]
		}
	}
	longest, before := max(3*step, longestStep), 0
	for i, to := range usage {
		one.last = to.Timestamp
		if l := limit[to.Timestamp]; l > 0 {
			one.limit = l
		}
		if p := period[to.Timestamp]; p > 0 {
			one.period = p / 1e6
		}
		from := usage[before]
		elapsed, used := read(to).Sub(read(from)), float64(to.Value-from.Value)
		if elapsed <= 0 { // it was not read again in between
			continue
		}
		before = i
		if elapsed > longest || !(used >= 0) || math.IsInf(used, 0) || started[from.Timestamp] != started[to.Timestamp] {
			continue
		}
		w := verdict.Window{Time: elapsed, Usage: time.Duration(used * float64(time.Second))}
		if l, known := limit[to.Timestamp]; known && l > 0 && l == limit[from.Timestamp] {
			w.Limit = l
		}
		ranFrom, a := ran[from.Timestamp]
		ranTo, b := ran[to.Timestamp]
		cutFrom, c := cut[from.Timestamp]
		cutTo, d := cut[to.Timestamp]
		if a && b && c && d && ranTo >= ranFrom && cutTo >= cutFrom {
			w.Periods, w.Throttled, w.Counted = ranTo-ranFrom, cutTo-cutFrom, true
		}
		w.Bursts = max(0, burst[to.Timestamp]-burst[from.Timestamp])
		one.windows = append(one.windows, w)
	}
	return one
}

// workload returns the kind and name of what has made a pod. A ReplicaSet whose owner is not known has a name
// and a hash, and a Job perhaps a time: without these, what is left is the name of something of an unknown
// kind.
func (f *facts) workload(namespace, kind, name, pod string) string {
	if owner := f.owners[[3]string{kind, namespace, name}]; owner != "" {
		return owner
	}
	switch kind {
	case "ReplicaSet":
		if base := hashed.FindStringSubmatch(name); base != nil {
			return base[1]
		}
	case "Job":
		if base := scheduled.FindStringSubmatch(name); base != nil {
			return base[1]
		}
	case "Node": // a static pod
		return "Pod/" + strings.TrimSuffix(pod, "-"+name)
	case "", "<none>":
		return "Pod/" + pod
	}
	return kind + "/" + name
}

// The names that controllers make: with the letters and digits of Kubernetes' hashes and random names, or
// with the minutes since 1970 for which a job was scheduled.
var (
	hashed    = regexp.MustCompile(`^(.+)-[bcdf0-9ghjklmnpqrstvwxz]{6,10}$`)
	scheduled = regexp.MustCompile(`^(.+)-[0-9]{8}$`)
	random    = regexp.MustCompile(`^(.+)-[bcdf0-9ghjklmnpqrstvwxz]{5}$`)
	ordinal   = regexp.MustCompile(`^(.+)-[0-9]{1,4}$`)
)

// guess returns the workload of a pod whose owner is not known, by its name.
func guess(pod string) string {
	if base := random.FindStringSubmatch(pod); base != nil {
		if deployment := hashed.FindStringSubmatch(base[1]); deployment != nil {
			return deployment[1]
		}
		return base[1]
	}
	if base := ordinal.FindStringSubmatch(pod); base != nil {
		return base[1]
	}
	return pod
}
