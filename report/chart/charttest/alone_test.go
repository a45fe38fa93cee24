package charttest

import "testing"

func TestProblems(t *testing.T) {
	for page, want := range map[string]int{
		`<!DOCTYPE html><html><head><meta charset="utf-8"></head><body><a href="#x">x</a> &amp; &nbsp;</body></html>`: 0,
		`<p>`:                                  1,
		`<p><b></p></b>`:                       1,
		`<script>x()</script>`:                 1,
		`<img src="x"></img>`:                  2,
		`<a href="https://example.org/">x</a>`: 1,
		`<p onclick="x()">x</p>`:               1,
	} {
		if got := Problems(page); len(got) != want {
			t.Errorf("%s: %q, want %d problems", page, got, want)
		}
	}
}
