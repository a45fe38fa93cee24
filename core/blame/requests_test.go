package blame

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTimeline: a request is split between what the threads do that want to run.
func TestTimeline(t *testing.T) {
	const a, b = Group(1), Group(2)
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	timeline := &Timeline{Group: a, Watched: map[Group]Group{a: a, b: b}}
	one, two := Thread{1, 1, a}, Thread{2, 1, a}
	for _, s := range []Span{
		{one, 0, Running, Occupant{}, ms(0), ms(10)},
		{two, 1, Sleeping, Occupant{}, ms(0), ms(20)},
		{one, 0, Throttled, Occupant{}, ms(10), ms(60)},
		{two, 1, Waiting, Occupant{b, 7}, ms(20), ms(40)},
		{two, 1, Waiting, Occupant{}, ms(40), ms(50)},
		{Thread{3, 3, b}, 1, Running, Occupant{}, ms(0), ms(100)},
		{one, 0, Running, Occupant{}, ms(60), ms(70)},
	} {
		timeline.Add(s)
	}
	for _, test := range []struct {
		from, to int
		want     Parts
	}{
		{5, 65, Parts{Running: ms(10), Throttled: ms(35), Others: ms(10), Idle: ms(5)}},
		{0, 10, Parts{Running: ms(10)}},
		{65, 80, Parts{Running: ms(5), Sleeping: ms(10)}},
		{-10, 5, Parts{Running: ms(5), Sleeping: ms(10)}},
		{30, 30, Parts{}},
	} {
		if got := timeline.Split(ms(test.from), ms(test.to)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%d to %d ms: %+v, want %+v", test.from, test.to, got, test.want)
		}
	}
	if got := (&Timeline{Group: a}).Split(0, ms(5)); !reflect.DeepEqual(got, Parts{Sleeping: ms(5)}) {
		t.Errorf("without spans: %+v", got)
	}
	timeline.MaxSpans = 2
	if timeline.Add(Span{one, 0, Running, Occupant{}, ms(70), ms(71)}); !timeline.Cut {
		t.Error("a timeline that is full takes more")
	}
}

// TestTimelineAddsUp: the parts of a request add up to its time, and those of two successive times
// to those of both.
func TestTimelineAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timeline := &Timeline{Group: 1, Watched: map[Group]Group{1: 1}}
		at := rapid.IntRange(0, 1000)
		for range rapid.IntRange(0, 20).Draw(t, "spans") {
			from := at.Draw(t, "from")
			timeline.Add(Span{Thread{1, 1, 1}, 0, State(rapid.IntRange(0, 5).Draw(t, "state")),
				Occupant{Group(rapid.IntRange(0, 2).Draw(t, "group")), rapid.IntRange(-1, 1).Draw(t, "process")},
				time.Duration(from), time.Duration(from + at.Draw(t, "length"))})
		}
		from := at.Draw(t, "begin")
		middle, to := from+at.Draw(t, "first"), 0
		to = middle + at.Draw(t, "second")
		sum := func(s Parts) time.Duration { return s.Runnable() + s.Unknown + s.Sleeping }
		all := timeline.Split(time.Duration(from), time.Duration(to))
		parts := sum(timeline.Split(time.Duration(from), time.Duration(middle))) + sum(timeline.Split(time.Duration(middle), time.Duration(to)))
		const rounding = 8
		if want := time.Duration(to - from); (sum(all)-want).Abs() > rounding || (parts-want).Abs() > 2*rounding {
			t.Fatalf("%d to %d: the parts of %+v add up to %v, those of both halves to %v", from, to, all, sum(all), parts)
		}
	})
}
