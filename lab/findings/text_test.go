package findings

import (
	"errors"
	"strings"
	"testing"

	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestTexts compares the reports of some runs as text with testdata.
func TestTexts(t *testing.T) {
	for _, r := range runs(t) {
		name := r.Result.Config.Name
		t.Run(name, func(t *testing.T) {
			var markdown, summary strings.Builder
			must.Do(t, Markdown(&markdown, []Run{r}))
			golden.Compare(t, "testdata/"+name+".md", markdown.String())
			must.Do(t, Summary(&summary, r))
			golden.Compare(t, "testdata/"+name+".txt", summary.String())
			for line := range strings.Lines(summary.String()) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n >= 100 {
					t.Errorf("a line of %d characters: %s", n, line)
				}
			}
		})
	}
}

// TestEscape: names cannot change the structure of a Markdown document.
func TestEscape(t *testing.T) {
	r := newMaker(t).cycles()
	r.Result.Config.Question = "a | b\n# <b>*c*</b> `d` [e](f)"
	r.Result.Config.Conditions[0].Name = "x | y"
	var out strings.Builder
	must.Do(t, Markdown(&out, []Run{r}))
	if want := "## a \\| b # \\<b>\\*c\\*\\</b> \\`d\\` \\[e](f)\n"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("begins %.80q, want %q", out.String(), want)
	}
}

// TestRejected: a run that cannot be reported is an error in every format, and nothing is written.
func TestRejected(t *testing.T) {
	for name, change := range map[string]func(*experiment.Result){
		"configuration": func(r *experiment.Result) { r.Config.Services = nil },
		"figure":        func(r *experiment.Result) { r.Windows[0].Figures[experiment.Used] = -1 },
		"infinity":      func(r *experiment.Result) { r.Windows[0].Figures[experiment.Used] = infinite(0, 1).High },
		"load":          func(r *experiment.Result) { r.Environment.Load = infinite(0, 1).Low },
	} {
		r := newMaker(t).cycles()
		change(&r.Result)
		var out strings.Builder
		for format, err := range map[string]error{
			"page": Page(&out, []Run{r}, ""), "markdown": Markdown(&out, []Run{r}), "summary": Summary(&out, r),
		} {
			if err == nil || !strings.Contains(err.Error(), `experiment "cycles"`) || out.Len() > 0 {
				t.Errorf("%s, %s: %v, %d bytes", name, format, err, out.Len())
			}
		}
	}
}

// TestFailingWriter: an error of the writer is returned.
func TestFailingWriter(t *testing.T) {
	r := newMaker(t).cycles()
	w := failing{errors.New("disk full")}
	for format, err := range map[string]error{"page": Page(w, []Run{r}, ""), "markdown": Markdown(w, []Run{r}), "summary": Summary(w, r)} {
		if !errors.Is(err, w.err) {
			t.Errorf("%s: %v", format, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
