package quantity

import (
	"testing"
	"time"
)

func TestTexts(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{Count(0, "core"), "0 cores"},
		{Count(1, "core"), "1 core"},
		{Count(2, "core"), "2 cores"},
		{Share(.7).String(), "70%"},
		{Share(1).String(), "100%"},
		{Share(1.0001).String(), "100%"},
		{Share(.99996).String(), "99.996%"},
		{Share(.999999999999).String(), "99.9999999999%"},
		{Share(1e-300).String(), "1e-298%"},
		{Share(1. / 3).Digits(6), "33.3333%"},
		{Share(2. / 3).Whole(), "67%"},
		{Share(0).Whole(), "0%"},
		{Share(2. / 620).Whole(), "<1%"},
		{Share(.0051).Whole(), "1%"},
		{CPUs(1).String(), "1 CPU"},
		{CPUs(.999).String(), "1 CPU"},
		{CPUs(1.5).String(), "1.5 CPUs"},
		{CPUs(20).String(), "20 CPUs"},
		{CPUs(.0123).String(), "0.012 CPUs"},
		{CPUs(0).Amount(), "0"},
		{CPUs(1.234).Fixed(), "1.23"},
		{CPUs(2).Fixed(), "2.00"},
		{Age(0), "0s"},
		{Age(119900 * time.Millisecond), "119s"},
		{Age(2 * time.Minute), "2m"},
		{Age(119 * time.Minute), "119m"},
		{Age(47*time.Hour + 59*time.Minute), "47h"},
		{Age(50 * time.Hour), "2d"},
		{Number(12.34, 1), "12.3"},
		{Number(100, 0), "100"},
	} {
		if test.got != test.want {
			t.Errorf("%s, want %s", test.got, test.want)
		}
	}
}
