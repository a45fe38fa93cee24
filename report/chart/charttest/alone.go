package charttest

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
)

// tester is a [testing.T] or a test of package rapid.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Alone fails the test if a page is not well-formed, loads something or runs a script.
func Alone(t tester, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict = false
	d.AutoClose = []string{"meta", "br"}
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatalf("the page is not well-formed: %v", err)
		}
		if start, ok := token.(xml.StartElement); ok {
			checkTag(t, start)
		}
	}
}

func checkTag(t tester, tag xml.StartElement) {
	t.Helper()
	name := tag.Name.Local
	if slices.Contains([]string{"script", "link", "img", "iframe", "object", "embed", "base"}, name) {
		t.Errorf("the page has a <%s>", name)
	}
	for _, a := range tag.Attr {
		if a.Name.Local == "src" || a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#") || strings.HasPrefix(a.Name.Local, "on") {
			t.Errorf("<%s> has %s=%q", name, a.Name.Local, a.Value)
		}
	}
}
