package documents

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

var (
	goTest   = regexp.MustCompile("go\\s+test\\s+[^`\n|]*(?:\\\\\\|[^`\n|]*)*")
	named    = regexp.MustCompile(`-(run|bench)[ =]('[^']*'|\S+)`)
	ofModule = regexp.MustCompile(`-C (\S+)`)
	ofRoom   = regexp.MustCompile(`\./[\w/]+`)
)

// TestTests checks that the tests and benchmarks exist by which documents say how to measure
// something: go test succeeds without running any.
func TestTests(t *testing.T) {
	commands := 0
	for _, document := range append(documents(t), "bench/run") {
		text := strings.NewReplacer("\\\n", " ", `\|`, "|").Replace(read(t, document))
		for _, command := range goTest.FindAllString(text, -1) {
			module := ""
			if match := ofModule.FindStringSubmatch(command); match != nil {
				module = match[1]
			}
			code := ""
			for _, room := range ofRoom.FindAllString(command, -1) {
				for _, file := range must.Get(filepath.Glob(filepath.Join(root, module, room, "*_test.go")))(t) {
					code += read(t, must.Get(filepath.Rel(root, file))(t))
				}
			}
			for _, match := range named.FindAllStringSubmatch(command, -1) {
				kind, name := map[string]string{"run": "Test", "bench": "Benchmark"}[match[1]], strings.Trim(match[2], "'")
				name, _, _ = strings.Cut(name, "/")
				if code == "" || name == "^$" || name == "." {
					continue
				}
				commands++
				if !declares(t, code, kind, name) {
					t.Errorf("%s has %q, but there is no such test", document, command)
				}
			}
		}
	}
	if commands == 0 {
		t.Error("no document has a test")
	}
}

// declares reports whether code declares a test or benchmark whose name matches a pattern.
func declares(t *testing.T, code, kind, pattern string) bool {
	matches := must.Get(regexp.Compile(pattern))(t)
	for _, match := range regexp.MustCompile(`(?m)^func (`+kind+`\w+)\(`).FindAllStringSubmatch(code, -1) {
		if matches.MatchString(match[1]) {
			return true
		}
	}
	return false
}

var makes = regexp.MustCompile("`make ([a-z][a-z-]*)(?: [^`]*)?`")

// TestTargets checks that Makefile has the targets that documents name.
func TestTargets(t *testing.T) {
	makefile, targets := read(t, "Makefile"), 0
	for _, document := range documents(t) {
		text := strings.Join(strings.Fields(fences.ReplaceAllString(read(t, document), "")), " ")
		for _, match := range makes.FindAllStringSubmatch(text, -1) {
			targets++
			if !regexp.MustCompile(`(?m)^` + match[1] + `:[^=]`).MatchString(makefile) {
				t.Errorf("%s: %s, but Makefile has no such target", document, match[0])
			}
		}
	}
	if targets == 0 {
		t.Error("no document names a target")
	}
}
