package chart

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

const (
	root     = "../.."
	chartDir = root + "/deploy/chart"
	// namespace is the recommended one, release the name of the release, and registry a value that the
	// chart requires.
	namespace = "pinfold-system"
	release   = "pinfold"
	registry  = "image.registry=registry.example.com/pinfold"
)

// The versions of Helm, as "make" names them. Helm 4 renders and installs for all tests, and Helm 3
// where it may differ.
const helm3, helm4 = "helm3", "helm4"

func TestMain(m *testing.M) {
	status := m.Run()
	if err := finish(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// helm runs a version of Helm, with a directory of its own for its state, and returns its output.
// The error contains what it has written to standard error.
func helm(t *testing.T, version string, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	command := exec.Command(must.Get(need.Program(version))(t), args...)
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

// render renders the chart.
func render(t *testing.T, values string, more ...string) string {
	t.Helper()
	key := fmt.Sprint(values, more)
	if rendered[key] == "" {
		rendered[key] = renderWith(t, helm4, values, more...)
	}
	return rendered[key]
}

func renderWith(t *testing.T, version, values string, more ...string) string {
	t.Helper()
	args := append([]string{"template", release, chartDir, "--namespace", namespace, "--set", registry, "--values", valuesFile(t, values)}, more...)
	out := must.Get(helm(t, version, args...))(t)
	// Helm 4 ends each document with an empty line.
	return strings.ReplaceAll(strings.TrimSpace(out), "\n\n---\n", "\n---\n") + "\n"
}

// TestHelm3 checks that both versions of Helm render the same.
func TestHelm3(t *testing.T) {
	need.This(t, "Helm 3")
	for name, values := range allValues(t) {
		if want, got := render(t, values), renderWith(t, helm3, values); got != want {
			t.Errorf("%s: the versions of Helm differ:\n%s", name, diffOf(want, got))
		}
	}
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
		if object.GetName() != name || ofOperator(object) {
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
