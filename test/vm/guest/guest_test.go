package guest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadEvents(t *testing.T) {
	const good = `{"program":"a","output":"one\n"}` + "\r\n" + `{"program":"b","output":"x"}
{"alive":true}
{"program":"a","output":"two"}
{"program":"a","ended":""}
{"program":"b","ended":"exit status 1"}
`
	want := map[string]Ran{"a": {Output: "one\ntwo"}, "b": {Output: "x", Failed: "exit status 1"}}
	for _, c := range []struct {
		name, text, err string
		want            map[string]Ran
	}{
		{"done", good + `{"done":true}` + "\nwhat comes later", "", want},
		{"falls silent", good, "ended before it was done", want},
		{"fails", good + `{"failed":"mount"}{"done":true}`, "in the guest: mount", want},
		{"fails and falls silent", `{"failed":"mount"}`, "in the guest: mount", map[string]Ran{}},
		{"noise", good + "[ 1.0] panic", "read the guest's events", want},
		{"nothing", "", "ended before it was done", map[string]Ran{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ReadEvents(strings.NewReader(c.text))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
