//go:build linux

package why

import (
	"strings"
	"testing"
	"time"
)

func TestReadRequests(t *testing.T) {
	got, err := readRequests(strings.NewReader("server,start,end\nweb,2026-11-22T12:00:00.5Z,2026-11-22T12:00:00.75Z\nweb,2026-11-22T13:00:01+01:00,2026-11-22T12:00:01Z\n"), 100)
	if err != nil || len(got) != 2 || got[0].End.Sub(got[0].Start) != 250*time.Millisecond || got[1].End != got[1].Start.UTC() {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                                     "the log is empty",
		"begin,end\n":                          `no column "start" in the first line`,
		"start,end\n1 March,2\n":               `line 2: column "start": "1 March": want a time such as 2026-03-01T12:00:00.1Z`,
		"start,end\n\"1\n":                     "line 2: a quotation mark is not closed",
		"start,end\n1,2,3\n":                   "line 2 has 3 fields, and the first line has 2",
		"start;end\n1795348801,5;1795348802\n": `column "start": "1795348801,5": want a time`,
		"start,end\n" + strings.Repeat("1795348801,1795348802\n", 101): "it has more than 100 requests: give those of the traced time only",
		"start,end\n2026-11-22T12:00:01Z,2026-11-22T12:00:00Z\n":       "line 2: the request ends before it starts",
	} {
		if _, err := readRequests(strings.NewReader(text), 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
