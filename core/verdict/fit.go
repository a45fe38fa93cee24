package verdict

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// sum is what windows of about the same load have in common.
type sum struct {
	load      float64 // mean use as a part of the limit
	periods   float64 // of wall time
	throttled float64
	ran       float64 // periods in which the bandwidth timer ran
	windows   int
	// idle is the share of periods that the timer counts while next to nothing is done, because of threads that
	// wake up for a moment again and again.
	idle float64
	// Of the wanted CPU time x of each window, in quotas, and its throttled periods y: how much y varies around
	// what x explains.
	xx, xy, yy float64
}

// add adds the CPU time that was wanted in a window, in quotas, and its throttled periods.
func (s *sum) add(x, y float64) {
	s.windows++
	s.throttled += y
	s.xx, s.xy, s.yy = s.xx+x*x, s.xy+x*y, s.yy+y*y
}

// clusters returns the variance of throttled periods around what their load explains, divided by their
// mean.
func (s *sum) clusters() float64 {
	squares, freedom := s.varied()
	if freedom == 0 || s.throttled == 0 {
		return 1
	}
	return max(.05, squares/freedom/(s.throttled/float64(s.windows)))
}

// varied returns by how much the throttled periods of windows vary around what their load explains: the
// sum of squares, and of how many independent ones.
func (s *sum) varied() (squares, freedom float64) {
	if s.windows < 2 || s.xx == 0 {
		return 0, 0
	}
	return max(0, s.yy-s.xy*s.xy/s.xx), float64(s.windows - 1)
}

// sumsOf adds up windows of about the same load. Those whose limit or throttling is not known are left
// out.
func sumsOf(windows []Window) []sum {
	bins := map[int]*sum{}
	for i := range windows {
		w := &windows[i]
		if !w.Counted || w.Limit <= 0 || w.Time <= 0 {
			continue
		}
		load := w.Usage.Seconds() / w.Time.Seconds() / w.Limit
		bin := math.MinInt
		if load > 0 {
			bin = int(math.Floor(2 * math.Log2(load)))
		}
		one := bins[bin]
		if one == nil {
			one = &sum{}
			bins[bin] = one
		}
		periods := w.Time.Seconds() / Period.Seconds()
		one.load += load * periods
		one.periods += periods
		one.ran += min(w.Periods, periods)
		one.add(load*periods, min(w.Throttled, periods))
	}
	var all []sum
	for _, one := range bins {
		one.load /= one.periods
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b sum) int { return cmp.Compare(a.load, b.load) })
	whole := total(all)
	for i := range all {
		if i == 0 && all[0].load <= nearlyIdle*whole.load {
			whole.idle = all[0].ran / all[0].periods
		}
		all[i].idle = whole.idle
	}
	return all
}

func total(sums []sum) (all sum) {
	for _, one := range sums {
		all.load += one.load * one.periods
		all.periods += one.periods
		all.throttled += one.throttled
	}
	all.load /= max(1, all.periods)
	return all
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// fitting returns the models that agree with what was counted: those that are not much less likely than
// the best.
func fitting(sums []sum) []throttling {
	type fit struct {
		throttling
		likelihood float64 // its logarithm
	}
	var all []fit
	best := math.Inf(-1)
	counted := total(sums)
	want := counted.throttled / counted.periods
	add := func(t throttling) {
		all = append(all, fit{t, t.likelihood(sums)})
		best = max(best, all[len(all)-1].likelihood)
	}
	type series struct {
		family family
		length int
	}
	before := map[series]*throttling{} // the last match of a family with a length, which has a little more active bursts
	for _, k := range kinds() {
		add(k[0]) // chance may have throttled a little less or more than one of the ends can
		add(k[len(k)-1])
		for i := range len(k) - 1 {
			a, b := k[i].share(sums, 1, 0), k[i+1].share(sums, 1, 0)
			if (a-want)*(b-want) > 0 || a == b {
				continue
			}
			match, its := mix(&k[i], &k[i+1], (want-a)/(b-a)), series{k[0].family, k[0].length}
			add(match)
			if last := before[its]; last != nil {
				add(mix(last, &match, .5))
			}
			before[its] = &match
			break
		}
	}
	var fits []throttling
	for i := range all {
		if all[i].likelihood >= best-unlikely {
			fits = append(fits, all[i].throttling)
		}
	}
	return fits
}

// share returns the share of throttled periods if the limit were multiplied by a factor. What was wanted in
// a time in which that is more than all of the limit throttles other periods, too.
func (t *throttling) share(sums []sum, factor float64, burst int) float64 {
	var throttled, periods float64
	for i := range sums {
		load := sums[i].load / factor
		throttled += sums[i].periods * max(1, load) * t.at(load, burst)
		periods += sums[i].periods
	}
	return min(1, throttled/periods)
}

// likelihood returns the logarithm of how likely a model makes what was counted, up to a constant: how
// many periods were throttled at which load, how much that varied from window to window, and in how many
// periods the timer ran. Models are wrong by [wrong] at least, so that many windows do not make one sure.
func (t *throttling) likelihood(sums []sum) (l float64) {
	normal := func(off, variance float64) { l -= off*off/variance/2 + math.Log(variance)/2 }
	var ran, expected, varied, vary, freedom float64
	for i := range sums {
		s := &sums[i]
		mean, clusters := s.periods*t.at(s.load, 0), along(t.clusters, s.load)
		normal(s.throttled-mean, clusters*mean+wrong*wrong*mean*mean+1)
		ran, expected = ran+s.ran, expected+s.periods*(1-(1-s.idle)*(1-along(t.ran, s.load)))
		if squares, n := s.varied(); n > 0 {
			varied, freedom = varied+squares, freedom+n
			each := s.throttled / float64(s.windows)
			vary += n * (clusters*each + wrong*wrong*each*each)
		}
	}
	if ran > 0 && expected > 0 {
		normal(math.Log(ran/expected), wrong*wrong)
	}
	if freedom > 0 {
		normal(math.Log((varied+freedom)/(vary+freedom)), 2/freedom+4*wrong*wrong)
	}
	return l
}

// factor returns by what the limit must be multiplied so that at most a share of the periods is throttled.
func (t *throttling) factor(sums []sum, burst int, share float64) float64 {
	low, high := 1e-3, 1e3
	for range 40 {
		if middle := math.Sqrt(low * high); t.share(sums, middle, burst) > share {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
