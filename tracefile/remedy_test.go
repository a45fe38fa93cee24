package tracefile

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// runPython runs statements and fails the test if they fail.
func runPython(t *testing.T, python string, statements ...string) {
	t.Helper()
	if out, err := exec.Command(python, "-W", "ignore", "-c", strings.Join(statements, "\n")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestNPYRemedies saves arrays that are refused, saves them again as each remedy in the message
// says, and reads that.
func TestNPYRemedies(t *testing.T) {
	python := pythonWith(t, "numpy")
	remedy := regexp.MustCompile(`\ba(?:\.\w+\((?:'[^']*')?\)|\[[^\]]*\])`)
	const interval = 100 * time.Millisecond
	ns := []time.Duration{32810, 50e6, 0}
	cpus := []time.Duration{2 * interval, interval, 0}
	asNS, asCPUs := "a.astype('<i8')", "a.astype('<f8')"
	both := map[string][]time.Duration{asNS: {2, 1, 0}, asCPUs: cpus}
	for array, want := range map[string]map[string][]time.Duration{
		"numpy.array([32810, 50e6, 0])":                                  {asNS: ns},
		"numpy.array([32810, 50e6, 0], dtype='>f4')":                     {asNS: ns},
		"numpy.array([2, 1, 0], dtype='f2')":                             {asCPUs: cpus},
		"numpy.array([2, 1, 0], dtype='g')":                              {asCPUs: cpus},
		"numpy.array([True, True, False])":                               {asNS: {1, 1, 0}, asCPUs: {interval, interval, 0}},
		"numpy.array([2, 1, 0], dtype=object)":                           both,
		"numpy.array(['2', '1', '0'])":                                   both,
		"numpy.array([2, 1, 0], dtype=complex)":                          both,
		"numpy.array([0, 2, 1], dtype='m8[m]')":                          {"a.astype('<m8[ns]')": {0, 2 * time.Minute, time.Minute}},
		"numpy.array([(2, 7)], dtype=[('usage_ns', 'i8'), ('x', 'i8')])": {"a['usage_ns']": {2}},
		"numpy.array([[2, 7], [1, 7], [0, 7]])":                          {"a[:, 0]": {2, 1, 0}},
		"numpy.array([[[2, 7], [8, 7]], [[1, 7], [8, 7]]])":              {"a[:, 0, 0]": {2, 1}},
		"numpy.array(7)":                                                 {"a.ravel()": {7}},
	} {
		t.Run(array, func(t *testing.T) {
			dir := t.TempDir()
			refused := filepath.Join(dir, "refused.npy")
			runPython(t, python, "import numpy", "a = "+array, fmt.Sprintf("numpy.save(%q, a)", refused))
			_, _, err := Read(refused, interval)
			if err == nil {
				t.Fatal("no error")
			}
			remedies := remedy.FindAllString(err.Error(), -1)
			if len(remedies) != len(want) {
				t.Fatalf("%v has the remedies %q, want %d", err, remedies, len(want))
			}
			for i, r := range remedies {
				file := filepath.Join(dir, fmt.Sprintf("%d.npy", i))
				runPython(t, python, "import numpy", "a = "+array, fmt.Sprintf("numpy.save(%q, %s)", file, r))
				if got := usageOf(t, file, interval); !slices.Equal(got, want[r]) {
					t.Errorf("%s: %v, want %v", r, got, want[r])
				}
			}
		})
	}
}

// TestNPYTypes reads every type of integers and floating-point numbers that numpy saves, in both
// byte orders, as rows, columns and vectors.
func TestNPYTypes(t *testing.T) {
	python := pythonWith(t, "numpy")
	dir := t.TempDir()
	const interval = 100 * time.Millisecond
	runPython(t, python, "import numpy, itertools",
		"for order, kind in itertools.product('<>', ['i1','i2','i4','i8','u1','u2','u4','u8','m8[ns]']):",
		"    a = numpy.array([2, 127, 0], dtype=order+kind)",
		"    for i, b in enumerate([a, a.reshape(-1, 1), a.reshape(1, -1), numpy.asfortranarray(a.reshape(-1, 1)), a.repeat(2)[::2]]):",
		fmt.Sprintf("        numpy.save(f'%s/{order}{kind}-{i}.npy', b)", dir),
		"for order, kind in itertools.product('<>', ['f4', 'f8']):",
		fmt.Sprintf("    numpy.save(f'%s/{order}{kind}.npy', numpy.array([2e-8, 127e-8, 0], dtype=order+kind))", dir),
	)
	files, err := filepath.Glob(dir + "/*.npy")
	if err != nil || len(files) != 94 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if got := usageOf(t, file, interval); !slices.Equal(got, []time.Duration{2, 127, 0}) {
			t.Errorf("%s: %v", filepath.Base(file), got)
		}
	}
}

func usageOf(t *testing.T, file string, interval time.Duration) (usage []time.Duration) {
	t.Helper()
	rec, _, err := Read(file, interval)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range rec.Series[0].Samples {
		usage = append(usage, s.Usage)
	}
	return usage
}

// TestTableRemedies does what the messages about tables say: commands in quotation marks are run,
// settings in the messages are given to the program that wrote the file.
func TestTableRemedies(t *testing.T) {
	python := pythonWith(t, "pandas")
	rec := onGrid()
	base := filepath.Join(t.TempDir(), "base.parquet")
	recordTo(t, rec, base)
	const csv = "f.to_csv(file, index=False%s)"
	command, sort := regexp.MustCompile(`'([a-z][^']*)'`), regexp.MustCompile(`sort the rows by (time)`)
	for name, c := range map[string]struct {
		write  string // with the options
		remedy *regexp.Regexp
		option string // of the remedy; "" if it is a command
	}{
		"UTF-16":   {fmt.Sprintf(csv, ", encoding='utf-16'"), command, ""},
		"xz":       {fmt.Sprintf(csv, ", compression='xz'"), command, ""},
		"Parquet":  {"c = open(base, 'rb').read(); gzip.open(file, 'wb').write(c)", command, ""},
		"unsorted": {"f = f.iloc[::-1]; " + fmt.Sprintf(csv, ""), sort, "f = f.sort_values('%s')"},
	} {
		t.Run(name, func(t *testing.T) {
			prepare := fmt.Sprintf("import gzip, pandas\nbase = %q\nf = pandas.read_parquet(base)\nfile = ", base)
			file := filepath.Join(t.TempDir(), "refused")
			runPython(t, python, prepare+fmt.Sprintf("%q", file), c.write)
			_, _, err := Read(file, 0)
			if err == nil {
				t.Fatal("no error")
			}
			m := c.remedy.FindStringSubmatch(err.Error())
			if m == nil {
				t.Fatalf("%v has no remedy", err)
			}
			better := file + ".better"
			if c.option == "" {
				if out, err := exec.Command("sh", "-c", fmt.Sprintf("%s <%s >%s", m[1], file, better)).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", m[1], err, out)
				}
			} else {
				runPython(t, python, prepare+fmt.Sprintf("%q", better), strings.Replace(c.write, "f.to_csv", fmt.Sprintf(c.option, m[1])+"; f.to_csv", 1))
			}
			got, _, err := Read(better, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(rec, sorted(got)); diff != "" {
				t.Errorf("another recording (-want +got):\n%s", diff)
			}
			if err := os.Remove(better); err != nil {
				t.Error(err)
			}
		})
	}
}
