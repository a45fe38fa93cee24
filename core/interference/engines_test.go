package interference

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/test/must"
)

// prepared is a drawer of prepared demands, less the quota.
type prepared struct {
	all   []int64
	quota int64
}

func (g *prepared) draw(ticks []int64) error {
	n := copy(ticks, g.all)
	g.all = g.all[n:]
	for i := range n {
		ticks[i] -= g.quota
	}
	return nil
}

// drawDemands draws demands in whole ticks. On a lattice, many are equal, a tenth of the quota, or
// exactly the quota.
func drawDemands(t *rapid.T, n int, load float64, lattice bool) []int64 {
	r := streams(rapid.Uint64().Draw(t, "seed"))(0)
	all := make([]int64, n)
	for i := range all {
		x := r.ExpFloat64() * load
		if lattice { // then amounts are often equal, and sometimes equal the capacity
			x = math.Round(x*10) / 10
		}
		all[i] = int64(x*quotaTicks + 0.5)
	}
	return all
}

const steps = 200

// TestUniformAgainstSlow compares the engine for identical groups and the engine for any groups
// with the reference implementation, on the same demands.
func TestUniformAgainstSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 30).Draw(t, "m")
		rule := rapid.SampledFrom([]Rule{Strict, Published}).Draw(t, "rule")
		burst := rapid.SampledFrom([]float64{0, 0.1, 0.5, 1, 2, 5, 1000}).Draw(t, "burst")
		load := rapid.Float64Range(0.1, 1.2).Draw(t, "load")
		rowsAhead := max(1, 1024/m)
		lattice := rapid.Bool().Draw(t, "lattice")
		demands := drawDemands(t, m*(steps+rowsAhead), load, lattice)
		bucket := int64(burst * quotaTicks)
		fast := newUniform(m, rule, bucket, &prepared{demands, quotaTicks})
		general := newMixed(rule, int64(m)*quotaTicks, []kind{{end: m, quota: quotaTicks, burst: bucket, demand: newRows(&prepared{demands, quotaTicks}, m)}})
		reference := &slow{rule: rule, lattice: lattice, capacity: float64(m) * quotaTicks, groups: make([]slowGroup, m)}
		for i := range reference.groups {
			reference.groups[i] = slowGroup{quota: quotaTicks, burst: float64(bucket), token: float64(bucket)}
		}
		for n := range steps {
			period := demands[n*m : (n+1)*m]
			checkStep(t, n, reference, period, fast, general)
			for i, g := range reference.groups {
				closeTo(t, n, "depth", float64(fast.depth[i]), g.need-g.token)
				closeTo(t, n, "need", float64(max(fast.depth[i], 0)+fast.unserved[i]), g.need)
				closeTo(t, n, "need", float64(general.need[i]), g.need)
				closeTo(t, n, "token", float64(general.token[i]), g.token)
			}
		}
		compareSums(t, fast.sum, reference.groups, reference.close)
		compareSums(t, general.kinds[0].sum, reference.groups, reference.close)
	})
}

// TestMixedAgainstSlow compares the engine for any groups with the reference implementation, for
// kinds of groups that differ and for a capacity below and above the sum of the quotas.
func TestMixedAgainstSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom([]Rule{Strict, Published}).Draw(t, "rule")
		reference := &slow{rule: rule}
		var kinds []kind
		var demands [][]int64
		total := 0.0
		for range rapid.IntRange(1, 4).Draw(t, "kinds") {
			count := rapid.IntRange(1, 6).Draw(t, "count")
			quota := int64(rapid.SampledFrom([]float64{1, 1.5, 2, 7.3}).Draw(t, "quota") * quotaTicks)
			burst := int64(rapid.SampledFrom([]float64{0, 0.3, 1, 4}).Draw(t, "burst") * float64(quota))
			all := drawDemands(t, count*(steps+max(1, 1024/count)), rapid.Float64Range(0.1, 1).Draw(t, "load"), false)
			for i := range all {
				all[i] = int64(float64(all[i]) * float64(quota) / quotaTicks)
			}
			first := len(reference.groups)
			kinds = append(kinds, kind{first: first, end: first + count, quota: quota, burst: burst, demand: newRows(&prepared{all, quota}, count)})
			demands = append(demands, all)
			for range count {
				reference.groups = append(reference.groups, slowGroup{quota: float64(quota), burst: float64(burst), token: float64(burst)})
				total += float64(quota)
			}
		}
		capacity := int64(total * rapid.SampledFrom([]float64{0.6, 0.9, 1, 1, 1.3}).Draw(t, "capacity"))
		reference.capacity = float64(capacity)
		e := newMixed(rule, capacity, kinds)
		for n := range steps {
			var period []int64
			for i, k := range kinds {
				count := k.end - k.first
				period = append(period, demands[i][n*count:(n+1)*count]...)
			}
			checkStep(t, n, reference, period, e)
			for i, g := range reference.groups {
				closeTo(t, n, "need", float64(e.need[i]), g.need)
				closeTo(t, n, "token", float64(e.token[i]), g.token)
			}
		}
		for _, k := range e.kinds {
			compareSums(t, k.sum, reference.groups[k.first:k.end], reference.close)
		}
	})
}

// checkStep compares whether a period missed its deadline.
func checkStep(t *rapid.T, n int, reference *slow, period []int64, engines ...engine) {
	before := reference.close
	want := reference.step(period)
	for i, e := range engines {
		got := must.Get(e.step())(t)
		if got != want && reference.close == before {
			t.Fatalf("period %d, engine %d: missed %v, want %v", n, i, got, want)
		}
	}
}

// closeTo allows for the division in whole ticks, which can be off by one tick per period.
func closeTo(t *rapid.T, n int, what string, got, want float64) {
	if math.Abs(got-want) > tie {
		t.Fatalf("period %d: %s %.0f ticks, want %.1f", n, what, got, want)
	}
}

func compareSums(t *rapid.T, got sums, groups []slowGroup, tooClose int64) {
	var want sums
	for _, g := range groups {
		want.throttled += g.throttled
		want.burst += g.used
		want.backlog += g.backlog
	}
	ticks := float64(tie * steps * len(groups))
	if off := got.throttled - want.throttled; max(off, -off) > tooClose || math.Abs(got.burst-want.burst) > ticks || math.Abs(got.backlog-want.backlog) > ticks {
		t.Fatalf("sums %+v, want %+v", got, want)
	}
}
