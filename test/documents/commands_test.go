package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestReadme executes the commands of README.md, and the examples of the manual that need root, whose
// figures differ each time.
func TestReadme(t *testing.T) {
	s := newShell(t)
	text := strings.Join(slices.DeleteFunc(s.blocks("README.md", "sh"), func(block string) bool {
		return strings.HasPrefix(block, "make test")
	}), "")
	contains(t, s.run(text), "7 of 7 containers placed")
	t.Run("root", func(t *testing.T) {
		requireRoot(t)
		s.T = t
		number := regexp.MustCompile(`[0-9.]+(ms|µs|s)?`)
		for _, block := range golden.ReadCode(t, filepath.Join(root, "docs/pinfold.md")) {
			if block.Info != "console root" {
				continue
			}
			for _, example := range block.Examples() {
				contains(t, number.ReplaceAllString(s.run(example[0]), "N"), number.ReplaceAllString(example[1], "N"))
			}
		}
	})
	t.Run("memory", func(t *testing.T) {
		mib := regexp.MustCompile(`([0-9.]+) MiB`)
		_, manual, _ := strings.Cut(read(t, "docs/pinfold.md"), "and at least\n  that of pinfold: ")
		s.T = t
		want, used := mib.FindStringSubmatch(manual)[1], mib.FindStringSubmatch(s.run("bin/pinfold run true 2>&1"))[1]
		if is, says := must.Get(strconv.ParseFloat(used, 64))(t), must.Get(strconv.ParseFloat(want, 64))(t); is < 0.8*says || is > 1.2*says {
			t.Errorf("pinfold run uses %s MiB, and the manual says %s", used, want)
		}
	})
}

// TestWhy executes the commands of docs/why.md, in their order and in one shell.
func TestWhy(t *testing.T) {
	requireRoot(t)
	s := newShell(t, "pinfold")
	if out, err := s.command("bin/pinfold why / --duration 100ms").CombinedOutput(); err != nil {
		t.Skipf("needs a kernel that can be traced: %s", out)
	}
	const document = "docs/why.md"
	script := s.blocks(document, "sh")[0]
	for _, name := range []string{"throttled", "neighbour", "threads"} {
		script += "echo CASE\n" + s.blocks(document, "sh "+name)[0]
	}
	// kill fails if one of the programs has ended. Behind what threads wait depends on the machine's
	// load.
	cases := strings.Split(s.run(script), "CASE\n")
	contains(t, cases[1], "pinfold-run-web: observed for 2", "limit 1 CPU in periods", "was throttled", "slowest 1% of the 1")
	contains(t, cases[2], "pinfold-run-web: observed for 2", "no CPU limit", "slowest 1% of the 1")
	contains(t, cases[3], "pinfold-run-many: observed for 10", "limit 1 CPU in periods", "was throttled")
	for _, pattern := range []string{"/sys/fs/cgroup/pinfold-run-", "/sys/fs/cgroup/*/pinfold-run-"} {
		for _, name := range []string{"web", "batch", "many"} {
			if left, _ := filepath.Glob(pattern + name); len(left) > 0 {
				t.Errorf("%s are left", left)
			}
		}
	}
}

// TestLab executes the cheap commands of docs/lab.md, and compares the list with its times.
func TestLab(t *testing.T) {
	const document = "docs/lab.md"
	before := must.Get(os.ReadFile(filepath.Join(root, document)))(t)
	s := newShell(t, "pinfold-lab")
	s.env = append(s.env, "TMPDIR="+t.TempDir()) // one run measures at a time in each
	golden.Compare(t, filepath.Join(root, document), golden.Console(string(before), "console", s.run))
	requireRoot(t)
	contains(t, s.run(s.blocks(document, "sh")[0]), "pi: 18 windows, 21s;", "Report: lab-results/pi-")
	contains(t, s.run(s.blocks(document, "sh own")[0]), "parallelism: 3 windows, ", "Report: lab-results/parallelism-")
}
