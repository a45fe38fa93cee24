// Package charttest checks HTML pages with charts, in tests:
//
//	charttest.Alone(t, page)             // it is well-formed, and loads and runs nothing
//	charttest.Fit(t, dir, "a.html", ...) // a browser shows it without scrolling sideways
package charttest

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// measuring is a page that shows others in frames of several widths, which are the widths of
// windows for the pages' styles. After loading, it contains what a reader of each page sees, as
// JSON.
const measuring = `<!DOCTYPE html><body><pre id="seen"></pre><script>
const seen = [];
// height returns the size of a text of a chart on the screen.
function height(text) {
  const chart = text.ownerSVGElement;
  return parseFloat(getComputedStyle(text).fontSize) * chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
}
function inside(a, b) { return a.left > b.left - 1 && a.right < b.right + 1 && a.top > b.top - 1 && a.bottom < b.bottom + 1; }
function measure(frame) {
  const page = frame.contentDocument, root = page.documentElement;
  for (const d of page.querySelectorAll("details")) d.open = true;
  const scrolled = [...page.querySelectorAll("body *")].filter(e => e.scrollWidth > e.clientWidth && getComputedStyle(e).overflowX != "visible");
  seen.push({
    page: frame.dataset.page, width: frame.contentWindow.innerWidth, needed: root.scrollWidth,
    charts: page.querySelectorAll("svg[role=img]").length,
    small: [...page.querySelectorAll("svg[role=img] text")].filter(x => height(x) < 8).map(x => x.textContent),
    outside: [...page.querySelectorAll("svg[role=img] text")].filter(x => !inside(x.getBoundingClientRect(), x.ownerSVGElement.getBoundingClientRect())).map(x => x.textContent),
    scrolled: scrolled.map(e => e.className),
    unsigned: scrolled.filter(e => !getComputedStyle(e).backgroundAttachment.includes("local")).map(e => e.className),
    lost: [...page.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest(".scroll")).map(e => e.outerHTML.slice(0, 80)),
  });
  document.querySelector("#seen").textContent = JSON.stringify(seen);
}
</script>%s</body>`

// layout is the result of measuring for a page at a width, in CSS pixels.
type layout struct {
	Page                  string
	Width, Needed, Charts int
	Small                 []string // texts in charts of less than 8 pixels, which cannot be read
	Outside               []string // texts that are cut off at the edge of a chart
	Scrolled              []string // classes of elements that have to be scrolled sideways
	Unsigned              []string // those of them without a sign of that
	Lost                  []string // elements beyond the edge of the page
}

const half = 800 // the width of half a screen

// widths returns those of a telephone, half a screen and a screen.
func widths() []int { return []int{360, half, 1200} }

// Fit shows the HTML pages of a folder in a browser, at the widths of a telephone, half a screen
// and a screen. No page needs to be scrolled sideways, and on a screen no part of it; a part that has
// to be on a telephone says so. Each page has a chart, and all text of charts can be read. The test is
// skipped if there is no browser.
func Fit(t *testing.T, dir string, pages ...string) {
	t.Helper()
	need.This(t, "Chromium")
	race.SkipLong(t)
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skipf("no browser to show pages in: %v; install it with 'apt-get install chromium'", err)
	}
	seen := show(t, browser, dir, pages)
	if len(seen) != len(pages)*len(widths()) {
		t.Fatalf("%d layouts, want %d", len(seen), len(pages)*len(widths()))
	}
	charts := 0
	for _, l := range seen {
		charts += l.Charts
		l.check(t)
	}
	if charts < len(seen) {
		t.Errorf("%d charts on %d pages", charts, len(seen))
	}
}

func (l layout) check(t *testing.T) {
	t.Helper()
	where := fmt.Sprintf("%s at %d px", l.Page, l.Width)
	if l.Needed > l.Width {
		t.Errorf("%s needs %d px", where, l.Needed)
	}
	if l.Width >= half && len(l.Scrolled) > 0 {
		t.Errorf("%s has parts that have to be scrolled: %q", where, l.Scrolled)
	}
	for what, some := range map[string][]string{
		"texts that are too small": l.Small, "texts beyond the edge of their chart": l.Outside,
		"parts that are cut without a sign": l.Unsigned, "parts beyond the edge of the page": l.Lost,
	} {
		if len(some) > 0 {
			t.Errorf("%s has %s: %q", where, what, some)
		}
	}
}

// show shows the pages of a folder at all widths.
func show(t *testing.T, browser, dir string, pages []string) []layout {
	t.Helper()
	var frames strings.Builder
	for _, page := range pages {
		for _, width := range widths() {
			fmt.Fprintf(&frames, `<iframe data-page="%s" src="/pages/%[1]s" style="border:0;width:%dpx;height:900px" onload="measure(this)"></iframe>`, page, width)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/pages/", http.StripPrefix("/pages", http.FileServer(http.Dir(dir))))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, measuring, frames.String()) })
	server := httptest.NewServer(mux)
	defer server.Close()
	// The browser's sandbox needs privileges that tests do not have.
	command := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--window-size=1300,900", "--dump-dom", server.URL)
	var messages strings.Builder
	command.Stderr = &messages
	shown, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, messages.String())
	}
	found := regexp.MustCompile(`(?s)<pre id="seen">(.*?)</pre>`).FindSubmatch(shown)
	var all []layout
	if found == nil || json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), &all) != nil {
		t.Fatalf("the browser shows\n%.1000s\n%s", shown, messages.String())
	}
	return all
}
