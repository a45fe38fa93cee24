package localnode

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

func testNode() *Node {
	return &Node{
		options: Options{
			Dir:        "/data/node",
			Binaries:   "/programs/node",
			Executable: "/programs/pinfold-local",
			Registry:   "127.0.0.1:5000",
			Agent:      "/programs/pinfold-agent",
			AgentFlags: []string{"--burst-policy=auto"},

			FeatureGates: map[string]bool{"DRANodeAllocatableResources": true},
		},
		layout:  layout{dir: "/data/node", run: "/run/pinfold-node-1234"},
		network: networkOf(netip.MustParsePrefix("10.213.7.0/24")),
		ports:   ports{kubelet: 10001, kubeletHealth: 10002, metrics: 10003, health: 10004},
	}
}

var testCredentials = Credentials{
	Kubeconfig: "/data/config/kubelet.kubeconfig", ClientCA: "/data/pki/ca.crt",
	Certificate: "/data/pki/kubelet.crt", Key: "/data/pki/kubelet.key", AgentKubeconfig: "/data/config/agent.kubeconfig",
}

// TestConfigurations compares the configurations and flags of the components with files in
// testdata, and decodes that of the kubelet as it does, which rejects unknown fields.
func TestConfigurations(t *testing.T) {
	n := testNode()
	var commands strings.Builder
	for _, spec := range n.Components(testCredentials) {
		commands.WriteString(spec.Path + "\n  " + strings.Join(spec.Args, "\n  ") + "\n")
	}
	files := must.Get(n.configurations(testCredentials))(t)
	files["commands.txt"] = []byte(commands.String())
	for name, got := range files {
		// The only part that depends on the machine.
		got := strings.Replace(string(got), `resolvConf: ""`, `resolvConf: "`+resolverFile+`"`, 1)
		golden.Compare(t, filepath.Join("testdata", filepath.Base(name)), got)
	}
	var config kubeletconfig.KubeletConfiguration
	must.Do(t, yaml.UnmarshalStrict(files["config/kubelet.yaml"], &config))
	if config.CPUManagerPolicy != "none" || *config.FailCgroupV1 || *config.Authentication.Anonymous.Enabled {
		t.Errorf("%+v", config)
	}
}

func TestQuotesInPaths(t *testing.T) {
	n := testNode()
	n.options.Binaries = `/it's/"here"`
	if text := must.Get(n.configurations(testCredentials))(t)["config/containerd.toml"]; !strings.Contains(string(text), `bin_dirs = ["/it's/\"here\""]`) {
		t.Errorf("quotes in a path:\n%s", text)
	}
}

func TestChooseNetwork(t *testing.T) {
	used := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.213.0.0/23")}
	chosen, err := chooseNetwork(used)
	if err != nil || chosen.pods.String() != "10.213.2.0/24" || chosen.node.String() != "10.213.2.254" {
		t.Errorf("chose %+v (%v)", chosen, err)
	}
	if _, err := chooseNetwork([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); err == nil {
		t.Error("a used network was chosen")
	}
}
