package api

import "testing"

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 10, ""},
		{"0123456789", 10, "0123456789"},
		{"0123456789a", 10, "012345 ..."},
		{"01234ö6789a", 10, "01234 ..."}, // not cut within the letter
		{"0123ö56789a", 10, "0123ö ..."},
	} {
		if got := Shorten(test.text, test.limit); got != test.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}
