package documents

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"
	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/test/must"
)

// TestFigures fills figures into the texts of testdata/figures.txt and looks for these texts in the
// documents. Spaces and line breaks do not count.
func TestFigures(t *testing.T) {
	archive := must.Get(txtar.ParseFile("testdata/figures.txt"))(t)
	summaries := baseline(t)
	bench := func(name, unit string) (float64, error) {
		summary, ok := summaries[name+" "+unit]
		if !ok {
			return 0, fmt.Errorf("baseline.txt has no %q of %q", unit, name)
		}
		return summary.Center, nil
	}
	functions := template.FuncMap{
		"bench": bench,
		"within": func(name, unit string) string {
			return strings.Trim(summaries[name+" "+unit].PctRangeString(), "± ")
		},
		"by": func(factor float64, name, unit string) (float64, error) {
			value, err := bench(name, unit)
			return factor * value, err
		},
		"ratio": func(name, of, unit string) float64 {
			return summaries[name+" "+unit].Center / summaries[of+" "+unit].Center
		},
		"digits": significant,
		"trim":   func(suffix, text string) string { return strings.TrimSuffix(text, suffix) },
		"cell":   cell,
		"peers": func(column int, keys ...string) (string, error) {
			return cell("bench/peers/results.md", "**256 CPUs, 8 NUMA nodes, 16 LLCs", column, keys...)
		},
		"allocators": func(mix string, column int, system string) (string, error) {
			return cell("bench/allocators/results.md", "**256 CPUs, 8 NUMA nodes, 16 LLCs: "+mix, column, system)
		},
		"figure": func(heading string, column int, keys ...string) (string, error) {
			return cell("docs/figures.md", heading, column, keys...)
		},
		"word": func(i int, text string) string { return strings.Trim(strings.Fields(text)[i], ",;") },
		"lab": func(heading string, column int, keys ...string) (string, error) {
			return cell("docs/results/report.md", "## "+heading, column, keys...)
		},
	}
	for _, file := range archive.Files {
		document := oneLine(read(t, file.Name))
		var texts bytes.Buffer
		must.Do(t, template.Must(template.New(file.Name).Funcs(functions).Parse(string(file.Data))).Execute(&texts, nil))
		for text := range strings.SplitSeq(texts.String(), "\n\n") {
			if !strings.Contains(document, oneLine(text)) {
				t.Errorf("%s does not have this text, which its figures come to:\n%s", file.Name, oneLine(text))
			}
		}
	}
}

// processors is what ends the names of benchmarks that run on more than one CPU.
var processors = regexp.MustCompile(`-[0-9]+$`)

// baseline returns the medians of baseline.txt, with their intervals, by the name of the benchmark,
// a space and the unit.
func baseline(t *testing.T) map[string]benchmath.Summary {
	file := must.Get(os.Open(filepath.Join(root, "bench/baseline.txt")))(t)
	defer file.Close()
	values := map[string][]float64{}
	for r := benchfmt.NewReader(file, "baseline.txt"); r.Scan(); {
		result, ok := r.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := processors.ReplaceAllString(result.Name.String(), "")
		for _, v := range result.Values {
			if v.OrigUnit != "" {
				v.Value, v.Unit = v.OrigValue, v.OrigUnit
			}
			values[name+" "+v.Unit] = append(values[name+" "+v.Unit], v.Value)
		}
	}
	summaries := map[string]benchmath.Summary{}
	for key, all := range values {
		summaries[key] = benchmath.AssumeNothing.Summary(benchmath.NewSample(all, &benchmath.DefaultThresholds), 0.95)
	}
	return summaries
}

// significant formats a positive number with at least n significant digits, without an exponent.
func significant(n int, value float64) string {
	return strconv.FormatFloat(value, 'f', max(0, n-1-int(math.Floor(math.Log10(value)))), 64)
}

// cell returns a cell of the row of a table whose first cells are keys, counted from the cell after
// these. An empty cell stands for that above it. The row is the first such one after a heading, or
// after several, separated by " > ".
func cell(file, heading string, column int, keys ...string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return "", err
	}
	section := string(data)
	for part := range strings.SplitSeq(heading, " > ") {
		_, section, _ = strings.Cut(section, part)
	}
	above := make([]string, len(keys))
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		if len(cells) <= len(keys)+column {
			continue
		}
		for i := range keys {
			if own := strings.TrimSpace(cells[i]); own != "" {
				above[i] = own
			}
		}
		if slices.Equal(above, keys) {
			return strings.TrimSpace(cells[len(keys)+column]), nil
		}
	}
	return "", fmt.Errorf("%s has no row %q after %q", file, keys, heading)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
