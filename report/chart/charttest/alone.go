package charttest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// Alone fails the test if a page is not well-formed, loads something or runs a script.
func Alone(t testing.TB, page string) {
	t.Helper()
	for _, problem := range Problems(page) {
		t.Error(problem)
	}
}

// Problems returns what [Alone] would report.
func Problems(page string) (problems []string) {
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict = false
	d.AutoClose = []string{"meta", "br"}
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return problems
		case err != nil:
			return append(problems, fmt.Sprintf("the page is not well-formed: %v", err))
		}
		if start, ok := token.(xml.StartElement); ok {
			problems = append(problems, tagProblems(start)...)
		}
	}
}

func tagProblems(tag xml.StartElement) (problems []string) {
	name := tag.Name.Local
	if slices.Contains([]string{"script", "link", "img", "iframe", "object", "embed", "base"}, name) {
		problems = append(problems, fmt.Sprintf("the page has a <%s>", name))
	}
	for _, a := range tag.Attr {
		if a.Name.Local == "src" || a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#") || strings.HasPrefix(a.Name.Local, "on") {
			problems = append(problems, fmt.Sprintf("<%s> has %s=%q", name, a.Name.Local, a.Value))
		}
	}
	return problems
}
