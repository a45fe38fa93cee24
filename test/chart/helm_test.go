package chart

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/test/must"
)

const (
	root     = "../.."
	chartDir = root + "/deploy/chart"
	bin      = root + "/bin"
	// namespace is the recommended one, release the name of the release, and registry a value that the
	// chart requires.
	namespace = "pinfold-system"
	release   = "pinfold"
	registry  = "image.registry=registry.example.com/pinfold"
)

// helms are the versions of Helm, as "make" names them.
var helms = []string{"helm3", "helm4"}

func TestMain(m *testing.M) {
	build := exec.Command("make", "--no-print-directory", "-C", root,
		"bin/helm3", "bin/helm4", "bin/pinfold-agent", "bin/pinfold-scheduler", "bin/pinfold-local")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs with make: %v\n%s", err, out)
		os.Exit(1)
	}
	status := m.Run()
	if err := finish(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// helm runs a version of Helm, with a directory of its own for its state, and returns its output.
// The error contains what it has written to standard error. No hooks run: the tests' control plane has
// no kubelet for their Jobs, which TestOperations of test/node has.
func helm(t *testing.T, version string, args ...string) (string, error) {
	t.Helper()
	if slices.Contains([]string{"install", "upgrade", "uninstall"}, args[0]) {
		args = append(args, "--no-hooks")
	}
	home := t.TempDir()
	command := exec.Command(filepath.Join(bin, version), args...)
	command.Env = append(os.Environ(), "KUBECONFIG=", "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", version, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// valuesFile writes values in YAML to a file.
func valuesFile(t *testing.T, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(file, []byte(values), 0o600))
	return file
}

// rendered has the results of render, by values and arguments.
var rendered = map[string]string{}

// render renders the chart with both versions of Helm, which must agree.
func render(t *testing.T, values string, more ...string) string {
	t.Helper()
	key := fmt.Sprint(values, more)
	if manifest, ok := rendered[key]; ok {
		return manifest
	}
	args := append([]string{"template", release, chartDir, "--namespace", namespace, "--set", registry, "--values", valuesFile(t, values)}, more...)
	first := ""
	for _, version := range helms {
		out := must.Get(helm(t, version, args...))(t)
		// Helm 4 ends each document with an empty line.
		out = strings.ReplaceAll(strings.TrimSpace(out), "\n\n---\n", "\n---\n") + "\n"
		if first == "" {
			first = out
		}
		if out != first {
			t.Errorf("%s and %s differ:\n%s", helms[0], version, diffOf(first, out))
		}
	}
	rendered[key] = first
	return first
}

// documents splits a rendered manifest.
func documents(t *testing.T, manifest string) (objects []*unstructured.Unstructured) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+manifest, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}

// typed decodes an object into its Go type, without unknown or duplicate fields.
func typed(t *testing.T, object *unstructured.Unstructured) runtime.Object {
	t.Helper()
	text := must.Get(object.MarshalJSON())(t)
	out, _, err := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer().Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return out
}

// find returns the only object of a type with a name.
func find[T runtime.Object](t *testing.T, manifest, name string) T {
	t.Helper()
	found, err := *new(T), errors.New("it is missing")
	for _, object := range documents(t, manifest) {
		if object.GetName() != name || ofAnotherCluster(object) {
			continue
		}
		if one, ok := typed(t, object).(T); ok {
			if err == nil {
				t.Fatalf("there are two %T %s", found, name)
			}
			found, err = one, nil
		}
	}
	if err != nil {
		t.Fatalf("%T %s: %v in\n%s", found, name, err, manifest)
	}
	return found
}
