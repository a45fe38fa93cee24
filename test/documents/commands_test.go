package documents

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestReadme executes the commands of README.md. The figures of its examples differ each time.
func TestReadme(t *testing.T) {
	s := newShell(t)
	text := strings.Join(slices.DeleteFunc(s.blocks("README.md", "sh"), func(block string) bool {
		return strings.HasPrefix(block, "make test") // runs this test, too
	}), "")
	contains(t, s.run(text), "CPUs online", "shop/web-0/app", "P(WCET = 1)", "7 of 7 containers placed")
	t.Run("root", func(t *testing.T) {
		requireRoot(t)
		s.T = t
		number := regexp.MustCompile(`[0-9.]+(ms|µs|s)?`)
		for _, block := range golden.ReadCode(t, filepath.Join(root, "README.md")) {
			if block.Info != "console" {
				continue
			}
			for _, example := range block.Examples() {
				contains(t, number.ReplaceAllString(s.run(example[0]), "N"), number.ReplaceAllString(example[1], "N"))
			}
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

// TestFragments reads what users copy into manifests of their own.
func TestFragments(t *testing.T) {
	for _, document := range []string{"docs/agent.md", "docs/dra.md", "docs/scheduler.md"} {
		for _, block := range golden.ReadCode(t, filepath.Join(root, document)) {
			text := []byte(block.Text)
			var err error
			switch {
			case block.File() == "ceilings.yaml":
				_, err = api.ParseCeilings(text)
			case block.Info == "yaml" && strings.HasPrefix(block.Text, "metadata:"):
				var pod corev1.Pod
				if err = yaml.UnmarshalStrict(text, &pod); err == nil {
					if len(pod.Spec.Containers) == 0 { // the fragment is about annotations
						pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
					}
					var intent api.Intent
					if intent, err = api.Parse(&pod); len(intent.Warnings)+len(api.Unknown(&pod)) > 0 {
						t.Errorf("%s: %q %q", document, intent.Warnings, api.Unknown(&pod))
					}
				}
			case document == "docs/dra.md":
				var spec resourceapi.ResourceClaimSpec
				if text, ok := bytes.CutPrefix(text, []byte("config:")); ok {
					err = yaml.UnmarshalStrict(append([]byte("devices:\n  config:"), bytes.ReplaceAll(text, []byte("\n"), []byte("\n  "))...), &spec)
					for _, c := range spec.Devices.Config {
						err = errors.Join(err, yaml.UnmarshalStrict(c.Opaque.Parameters.Raw, &dra.Parameters{}))
					}
				} else {
					err = yaml.UnmarshalStrict(text, &spec)
				}
			case block.Info == "yaml":
				err = errors.New("this test reads only metadata of pods, ceilings, and parts of resource claims")
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", document, err, text)
			}
		}
	}
}
