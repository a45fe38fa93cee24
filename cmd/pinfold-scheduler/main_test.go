package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"pinfold.dev/pinfold/cmd/frame/frametest"
	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/test/must"
)

func TestMain(m *testing.M) { frametest.Main(m, "pinfold-scheduler", main) }

// TestHelp checks the help. The flags are kube-scheduler's.
func TestHelp(t *testing.T) { frametest.Help(t, newCommand) }

func TestCompletion(t *testing.T) { frametest.Completion(t, "testdata/completion.txtar") }

// decode reads a configuration as kube-scheduler does: strictly, with defaults.
func decode(t *testing.T, text []byte) *config.KubeSchedulerConfiguration {
	t.Helper()
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	c := obj.(*config.KubeSchedulerConfiguration)
	c.APIVersion = gvk.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// Without --config the command passes the default configuration to kube-scheduler, with the
// kubeconfig of the command line.
func TestDefaultConfiguration(t *testing.T) {
	cmd := newCommand()
	must.Do(t, cmd.ParseFlags([]string{"--kubeconfig", "/some/where"}))
	must.Do(t, cmd.PreRunE(cmd, nil))
	path := must.Get(cmd.Flags().GetString("config"))(t)
	text := must.Get(os.ReadFile(path))(t)
	c := decode(t, text)
	if got := c.ClientConnection.Kubeconfig; got != "/some/where" {
		t.Errorf("kubeconfig %q", got)
	}
	if !c.LeaderElection.LeaderElect || c.LeaderElection.ResourceName != "kube-scheduler" {
		t.Errorf("leader election %+v, want it enabled with kube-scheduler's lease", c.LeaderElection)
	}
}

// --version prints Pinfold's version as well. That of Kubernetes is printed when the command runs.
func TestVersion(t *testing.T) {
	for flag, want := range map[string]string{"--version": "pinfold-scheduler ", "--version=raw": "pinfold-scheduler ", "--version=false": "", "--v=0": ""} {
		cmd := newCommand()
		var out strings.Builder
		cmd.SetOut(&out)
		must.Do(t, cmd.ParseFlags([]string{flag}))
		must.Do(t, cmd.PreRunE(cmd, nil))
		if !strings.HasPrefix(out.String(), want) || want == "" && out.Len() > 0 {
			t.Errorf("%s: %q, want %q first", flag, out.String(), want)
		}
	}
}

func TestGivenConfigurationIsKept(t *testing.T) {
	cmd := newCommand()
	must.Do(t, cmd.ParseFlags([]string{"--config", "/mine"}))
	must.Do(t, cmd.PreRunE(cmd, nil))
	if path, err := cmd.Flags().GetString("config"); err != nil || path != "/mine" {
		t.Errorf("config %q, %v", path, err)
	}
}

// In a cluster the configuration has no kubeconfig.
func TestConfigurationInCluster(t *testing.T) {
	text := must.Get(configuration(""))(t)
	c := decode(t, text)
	if len(c.Profiles) != 1 || c.Profiles[0].SchedulerName != "default-scheduler" || c.ClientConnection.Kubeconfig != "" {
		t.Fatalf("profiles %+v, kubeconfig %q", c.Profiles, c.ClientConnection.Kubeconfig)
	}
	enabled := c.Profiles[0].Plugins.MultiPoint.Enabled
	if !slices.ContainsFunc(enabled, func(p config.Plugin) bool { return p.Name == scheduler.Name }) {
		t.Errorf("plugins %+v", enabled)
	}
}
