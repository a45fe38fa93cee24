package chart

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/tools/txtar"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/kube/scheduler/command"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// allValues returns the values of all archives, by name, and of what deploy/manifests shows.
func allValues(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{"defaults": "", "agent-alone": "scheduler: {enabled: false}", "scheduler-alone": "agent: {enabled: false}"}
	files := must.Get(filepath.Glob("testdata/*.txtar"))(t)
	for _, file := range files {
		archive := must.Get(txtar.ParseFile(file))(t)
		all[strings.TrimSuffix(filepath.Base(file), ".txtar")] = string(archive.Files[0].Data)
	}
	return all
}

// components reports which components values install.
func components(t *testing.T, values string) (agent, scheduler bool) {
	t.Helper()
	given := struct{ Agent, Scheduler struct{ Enabled bool } }{}
	given.Agent.Enabled, given.Scheduler.Enabled = true, true
	must.Do(t, yaml.Unmarshal([]byte(values), &given))
	return given.Agent.Enabled, given.Scheduler.Enabled
}

// TestAgentFlags checks that the agent accepts all arguments, and that the chart's defaults are the
// agent's.
func TestAgentFlags(t *testing.T) {
	for name, values := range allValues(t) {
		if agent, _ := components(t, values); !agent {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, set := range agentSets(t, render(t, values)) {
				args := set.Spec.Template.Spec.Containers[0].Args
				// Flags are parsed up to --help.
				help, err := exec.CommandContext(t.Context(), must.Get(need.Program("pinfold-agent"))(t), append(args, "--help")...).CombinedOutput()
				if err != nil {
					t.Fatalf("pinfold-agent %q: %v\n%s", args, err, help)
				}
				if name == "defaults" {
					compareDefaults(t, args, string(help))
				}
			}
		})
	}
}

// compareDefaults compares arguments with the defaults in the help.
func compareDefaults(t *testing.T, args []string, help string) {
	t.Helper()
	compared := 0
	help = regexp.MustCompile(`\n {20,}`).ReplaceAllString(help, " ") // the rest of a flag's text
	for _, arg := range args {
		flag, value, ok := strings.Cut(arg, "=")
		if !ok || flag == "--host-root" || flag == "--listen" || flag == "--nri-socket" {
			continue // differ in a pod
		}
		match := regexp.MustCompile(`(?m)^ +(?:-\w, )?` + flag + ` .*\(default "?([^")]+)"?\)$`).FindStringSubmatch(help)
		if match == nil || match[1] != value {
			t.Errorf("the chart passes %s by default; the help says %q", arg, match)
		}
		compared++
	}
	if compared < 8 {
		t.Errorf("%d flags compared in %q", compared, args)
	}
}

// TestSchedulerConfiguration checks that the scheduler accepts its arguments and its configuration,
// and that the default ones are those of the command without --config.
func TestSchedulerConfiguration(t *testing.T) {
	for name, values := range allValues(t) {
		if _, scheduler := components(t, values); !scheduler {
			continue
		}
		t.Run(name, func(t *testing.T) {
			manifest := render(t, values)
			object := "pinfold-scheduler"
			if strings.Contains(values, "nameOverride: cpu\n") {
				object = "cpu-scheduler"
			}
			deployment := find[*appsv1.Deployment](t, manifest, object)
			if err := command.New("pinfold-scheduler", command.Settle).ParseFlags(deployment.Spec.Template.Spec.Containers[0].Args); err != nil {
				t.Error(err)
			}
			text := find[*corev1.ConfigMap](t, manifest, object).Data["scheduler.yaml"]
			var strict scheduler.Args
			if problems, err := json.UnmarshalStrict(schedulerArgs(t, text), &strict); err != nil || len(problems) > 0 {
				t.Errorf("arguments of the plugin: %v %v", problems, err)
			}
			if err := strict.Ceilings.Validate(); err != nil {
				t.Error(err)
			}
			spec := deployment.Spec.Template.Spec
			mount, volume := spec.Containers[0].VolumeMounts[0], spec.Volumes[0]
			if mount.MountPath != "/etc/pinfold" || mount.Name != volume.Name || volume.ConfigMap == nil || volume.ConfigMap.Name != object {
				t.Errorf("the configuration is not mounted: %+v of %+v", mount, volume)
			}
			if name == "mode-default" {
				compareYAML(t, scheduler.DefaultConfiguration, text)
			}
		})
	}
}

// schedulerArgs decodes a configuration as kube-scheduler does, and returns the plugin's arguments
// in JSON.
func schedulerArgs(t *testing.T, text string) []byte {
	t.Helper()
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	c := object.(*config.KubeSchedulerConfiguration)
	c.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		t.Fatal(err)
	}
	for _, one := range c.Profiles[0].PluginConfig {
		if one.Name == scheduler.Name {
			return must.Get(yaml.YAMLToJSONStrict(one.Args.(*runtime.Unknown).Raw))(t)
		}
	}
	t.Fatalf("no arguments of the plugin in\n%s", text)
	return nil
}

func compareYAML(t *testing.T, want, got string) {
	t.Helper()
	var a, b any
	for text, into := range map[string]*any{want: &a, got: &b} {
		must.Do(t, yaml.Unmarshal([]byte(text), into))
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// mountedFiles returns the files of the projected volumes that a pod's container mounts at a
// directory. A ConfigMap that is mounted whole has the ceilings.
func mountedFiles(pod corev1.PodSpec, dir string) map[string]bool {
	files := map[string]bool{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		for _, volume := range pod.Volumes {
			if mount.MountPath != dir || volume.Name != mount.Name || volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				var items []corev1.KeyToPath
				if m := source.ConfigMap; m != nil {
					if items = m.Items; items == nil {
						items = []corev1.KeyToPath{{Path: "ceilings.yaml"}}
					}
				}
				if s := source.Secret; s != nil {
					items = s.Items
				}
				for _, item := range items {
					files[dir+"/"+item.Path] = true
				}
			}
		}
	}
	return files
}

// TestAgentFiles checks that the files that the agent is told of are mounted, and that it accepts
// the ceilings.
func TestAgentFiles(t *testing.T) {
	seen := 0
	for name, values := range allValues(t) {
		if agent, _ := components(t, values); !agent {
			continue
		}
		manifest := render(t, values)
		for _, set := range agentSets(t, manifest) {
			if unknown := api.Unknown(&corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta}); len(unknown) > 0 {
				t.Errorf("%s: an agent would warn of %s: %q", name, set.Name, unknown)
			}
			pod := set.Spec.Template.Spec
			mounted := mountedFiles(pod, "/etc/pinfold")
			for _, arg := range pod.Containers[0].Args {
				_, file, _ := strings.Cut(arg, "=")
				if strings.HasPrefix(file, "/etc/") && !mounted[file] {
					t.Errorf("%s: %s is not mounted; %v are", name, arg, mounted)
				}
				if strings.HasPrefix(arg, "--ceilings=") {
					seen++
					if _, err := api.ParseCeilings([]byte(find[*corev1.ConfigMap](t, manifest, "pinfold-ceilings").Data["ceilings.yaml"])); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
			for _, mount := range pod.Containers[0].VolumeMounts {
				if under, ok := strings.CutPrefix(mount.MountPath, "/host"); ok && !mounts(pod, mount.Name, under) {
					t.Errorf("%s: %s is not the node's %s", name, mount.MountPath, under)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no values have ceilings")
	}
}

// mounts reports whether a volume is a directory of the node.
func mounts(pod corev1.PodSpec, volume, dir string) bool {
	for _, v := range pod.Volumes {
		if v.Name == volume {
			return v.HostPath != nil && v.HostPath.Path == dir
		}
	}
	return false
}

// TestPolicies compares the admission policies with those of package admission.
func TestPolicies(t *testing.T) {
	const newer = "--api-versions=admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
	for values, account := range map[string]string{
		"": "pinfold-agent", "scheduler: {mode: default}": "pinfold-agent", "agent: {serviceAccount: {name: node.agent}}": "node.agent",
	} {
		protecting := []runtime.Object{admission.Policy(), admission.Binding(), admission.AgentPolicy(namespace, account), admission.AgentBinding(),
			admission.Misplaced(), admission.MisplacedBinding()}
		warning := []runtime.Object{admission.RequestsWarning(), admission.RequestsWarningBinding()}
		raising := []runtime.Object{admission.Requests(), admission.RequestsBinding()}
		comparePolicies(t, render(t, values), slices.Concat(protecting, warning))
		comparePolicies(t, render(t, values, newer), slices.Concat(protecting, raising))
		comparePolicies(t, render(t, values+"\nadmissionPolicies: {enabled: false}"), nil)
		comparePolicies(t, render(t, values+"\nadmissionPolicies: {raiseRequests: false}", newer), protecting)
	}
}

// comparePolicies compares all policies and bindings in a manifest.
func comparePolicies(t *testing.T, manifest string, want []runtime.Object) {
	t.Helper()
	var got []runtime.Object
	for _, object := range documents(t, manifest) {
		if strings.Contains(object.GetKind(), "AdmissionPolicy") {
			object.SetAnnotations(nil) // those for Helm
			got = append(got, typed(t, object))
		}
	}
	byName := cmpopts.SortSlices(func(a, b runtime.Object) bool { return nameOf(a) < nameOf(b) })
	if diff := cmp.Diff(want, got, byName); diff != "" {
		t.Errorf("(-Go +chart):\n%s", diff)
	}
}

func nameOf(object runtime.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + object.(metav1.Object).GetName()
}
