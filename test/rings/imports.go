package rings

import (
	"fmt"
	"slices"
	"strings"
)

// support returns the packages that the tests of all rooms may import, including those of core. So
// each is a room of its own, within the room test. Only test/wait imports another one.
func support() []string {
	return []string{"test/bpf", "test/busy", "test/checkout", "test/golden", "test/logtext", "test/must", "test/need", "test/property", "test/race", "test/variables", "test/wait"}
}

// rooms returns for each room which other rooms its packages may import.
func rooms() map[string][]string {
	all := map[string][]string{
		"core":      {},
		"internal":  {},           // additions to the standard library
		"deploy":    {"internal"}, // manifests, embedded, and what packs them
		"linux":     {"core", "internal"},
		"kube":      {"core", "internal"},
		"report":    {"core"},
		"tracefile": {"core", "internal"},
		"agent":     {"core", "internal", "linux", "kube"},
		"local":     {"core", "internal", "linux", "kube", "agent", "report", "tracefile", "deploy"},
		frame:       {"core", "internal", "report"}, // what programs share
		"cmd":       {"core", "internal", "linux", "kube", "agent", "report", "tracefile", "deploy", "local", frame},
		"test":      {"core", "internal", "linux", "kube", "agent", "report", "tracefile", "deploy", "local", "cmd"},
		"bench":     {"core", "internal", "linux", "kube", "agent", "report", "tracefile", "deploy", "local"},
		"lab":       {"core", "internal", "linux", "kube", "agent", "report", "tracefile", "deploy", "local", frame},
	}
	for _, dir := range support() {
		all[dir] = nil
	}
	all["test/wait"] = []string{"test/busy"} // which measures what disturbed a wait
	all[suite] = []string{"test/busy", "test/need"}
	return all
}

// suite runs the tests of the other rooms, and frame is what programs share.
const suite, frame = "test/suite", "cmd/frame"

// forTests returns the rooms that only the tests of a room may import. Tests of kube read captures
// of real machines.
func forTests(room string) []string {
	if room == "kube" {
		return append(support(), "linux")
	}
	return support()
}

// roomOf returns the room of a package.
func roomOf(dir string) string {
	for _, room := range append(support(), suite, frame) {
		if within(dir, room) {
			return room
		}
	}
	room, _, _ := strings.Cut(dir, "/")
	return room
}

// CheckImports returns a problem for each import that points outward.
func CheckImports(m *Module) []string {
	var problems []string
	for _, f := range m.Files {
		room := roomOf(f.Dir())
		allowed, ok := rooms()[room]
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: %q is not a room: add it to test/rings", f.Path, room))
			continue
		}
		if f.IsTest() {
			allowed = slices.Concat(allowed, forTests(room))
		}
		for _, imported := range f.Imports {
			dir, ok := strings.CutPrefix(imported, m.Path+"/")
			if !ok {
				continue
			}
			to := roomOf(dir)
			switch {
			case to != room && !slices.Contains(allowed, to):
				problems = append(problems, fmt.Sprintf("%s: imports %s: %s may import %s", f.Path, dir, room, sees(allowed)))
			case isTestPackage(dir) && !f.IsTest():
				problems = append(problems, fmt.Sprintf("%s: imports %s, which is for tests", f.Path, dir))
			case isController(dir) && strings.HasPrefix(f.Dir(), controllers) && dir != f.Dir():
				problems = append(problems, fmt.Sprintf("%s: imports %s, which is another controller: they meet in agent/control", f.Path, dir))
			case room == "cmd" && to == "cmd" && command(dir) != command(f.Dir()):
				problems = append(problems, fmt.Sprintf("%s: imports %s, which belongs to another command", f.Path, dir))
			}
		}
	}
	return problems
}

// controllers is where the controllers of the agent are, beside the values that they decide from.
const controllers = "agent/control/"

func isController(dir string) bool {
	return strings.HasPrefix(dir, controllers) && !isTestPackage(dir) && dir != controllers+"groups" && dir != controllers+"pods"
}

func sees(allowed []string) string {
	if len(allowed) == 0 {
		return "no other room"
	}
	return "only " + strings.Join(allowed, ", ")
}

// command returns the command to which a package below cmd belongs.
func command(dir string) string {
	parts := strings.Split(dir, "/")
	return parts[min(1, len(parts)-1)]
}
