package documents

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// TestManifests reads what users copy, as Pinfold does: the YAML of all documents and examples. Nothing
// is unknown, or causes a warning.
func TestManifests(t *testing.T) {
	for _, document := range documents(t) {
		for _, block := range golden.ReadCode(t, filepath.Join(root, document)) {
			if block.Info != "yaml" && !strings.HasSuffix(block.File(), ".yaml") {
				continue
			}
			if err := checkYAML([]byte(block.Text), document, block.File()); err != nil {
				t.Errorf("%s: %v\n%s", document, err, block.Text)
			}
		}
	}
	err := fs.WalkDir(deploy.Examples(), ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if err := checkYAML(must.Get(fs.ReadFile(deploy.Examples(), file))(t), "deploy/examples", file); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		return err
	})
	must.Do(t, err)
}

// checkYAML checks a file, or a part of one.
func checkYAML(text []byte, document, file string) error {
	switch {
	case path.Base(file) == "ceilings.yaml":
		_, err := api.ParseCeilings(text)
		return err
	case slices.Contains([]string{"values.yaml", "site.yaml", "pools.yaml", "monitoring.yaml"}, file):
		return checkValues(text)
	case document == "docs/dra.md":
		return checkClaim(text)
	}
	var failed []error
	for one := range bytes.SplitSeq(text, []byte("\n---\n")) {
		failed = append(failed, checkObject(one))
	}
	return errors.Join(failed...)
}

// checkObject checks an object of Kubernetes. One without a kind is a part of a pod.
func checkObject(text []byte) error {
	var object struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct{ Template corev1.PodTemplateSpec }
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		return err
	}
	var pod corev1.Pod
	switch object.Kind {
	case "", "Pod":
		if err := yaml.UnmarshalStrict(text, &pod); err != nil {
			return err
		}
	case "Deployment":
		for _, key := range api.PodAnnotations() {
			if _, misplaced := object.Annotations[key]; misplaced {
				return fmt.Errorf("annotation %s is not in the template of pods", key)
			}
		}
		pod.ObjectMeta, pod.Spec = object.Spec.Template.ObjectMeta, object.Spec.Template.Spec
	case "ResourceClaimTemplate":
		return yaml.UnmarshalStrict(text, &resourceapi.ResourceClaimTemplate{})
	case "Service", "ConfigMap", "KubeSchedulerConfiguration": // Pinfold's programs do not read the first two; TestLocal starts a scheduler
		return nil
	default:
		return fmt.Errorf("this test does not read objects of kind %s", object.Kind)
	}
	return checkPod(&pod)
}

func checkPod(pod *corev1.Pod) error {
	requests := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return !c.Resources.Requests.Cpu().IsZero() || !c.Resources.Limits.Cpu().IsZero()
	})
	if len(pod.Spec.Containers) == 0 { // the text is about annotations
		limit := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: limit}}}
	}
	intent, err := api.Parse(pod)
	if err == nil && len(intent.Warnings)+len(api.Unknown(pod)) > 0 {
		err = fmt.Errorf("%q %q", intent.Warnings, api.Unknown(pod))
	}
	if err == nil && intent.Class == qos.BE && requests {
		err = errors.New("NotBestEffort: a batch pod that requests CPUs")
	}
	return err
}

// checkClaim checks the specification of a claim, or its part "config".
func checkClaim(text []byte) error {
	var spec resourceapi.ResourceClaimSpec
	config, ok := bytes.CutPrefix(text, []byte("config:"))
	if !ok {
		return yaml.UnmarshalStrict(text, &spec)
	}
	err := yaml.UnmarshalStrict(append([]byte("devices:\n  config:"), bytes.ReplaceAll(config, []byte("\n"), []byte("\n  "))...), &spec)
	for _, c := range spec.Devices.Config {
		err = errors.Join(err, yaml.UnmarshalStrict(c.Opaque.Parameters.Raw, &dra.Parameters{}))
	}
	return err
}

// checkValues checks that the chart has values with these names. Helm checks more, in the tests that
// install them.
func checkValues(text []byte) error {
	var values, known map[string]any
	chart, err := fs.ReadFile(os.DirFS(root), "deploy/chart/values.yaml")
	if err = errors.Join(err, yaml.UnmarshalStrict(text, &values), yaml.UnmarshalStrict(chart, &known)); err != nil {
		return err
	}
	var check func(at string, values, known map[string]any) error
	check = func(at string, values, known map[string]any) (err error) {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			has, ok := known[name]
			if !ok {
				err = errors.Join(err, fmt.Errorf("the chart has no value %s%s", at, name))
			}
			if inside, ok := has.(map[string]any); ok && len(inside) > 0 {
				more, ok := values[name].(map[string]any)
				if !ok {
					err = errors.Join(err, fmt.Errorf("%s%s is not an object", at, name))
				}
				err = errors.Join(err, check(at+name+".", more, inside))
			}
		}
		return err
	}
	return check("", values, known)
}
