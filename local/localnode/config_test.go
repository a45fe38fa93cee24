package localnode

import (
	"encoding/json"
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
// testdata.
func TestConfigurations(t *testing.T) {
	n := testNode()
	containerd := must.Get(n.containerdConfig())(t)
	kubelet := must.Get(n.kubeletConfig(testCredentials))(t)
	// The only part that depends on the machine.
	kubelet = []byte(strings.Replace(string(kubelet), `resolvConf: ""`, "resolvConf: "+resolverFile, 1))
	network := must.Get(networkConfig(n.network, "/data/node/addresses"))(t)
	var commands strings.Builder
	for _, spec := range n.Components(testCredentials) {
		commands.WriteString(spec.Path + "\n  " + strings.Join(spec.Args, "\n  ") + "\n")
	}
	for name, got := range map[string]string{
		"containerd.toml": string(containerd), "kubelet.yaml": string(kubelet), "network.json": string(network),
		"hosts.toml": string(hostsConfig("127.0.0.1:5000")), "commands.txt": commands.String(),
	} {
		golden.Compare(t, filepath.Join("testdata", name), got)
	}
}

// TestKubeletConfigFields decodes the configuration as the kubelet does, which rejects unknown
// fields.
func TestKubeletConfigFields(t *testing.T) {
	text := must.Get(testNode().kubeletConfig(testCredentials))(t)
	var config kubeletconfig.KubeletConfiguration
	must.Do(t, yaml.UnmarshalStrict(text, &config))
	if config.CPUManagerPolicy != "none" || *config.FailCgroupV1 || *config.Authentication.Anonymous.Enabled {
		t.Errorf("%+v", config)
	}
}

func TestContainerdRejectsQuotesInPaths(t *testing.T) {
	n := testNode()
	n.options.Binaries = "/it's/here"
	if _, err := n.containerdConfig(); err == nil || !strings.Contains(err.Error(), "another directory") {
		t.Errorf("a quote in a path: %v", err)
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

func TestPodAddressesExcludeTheNode(t *testing.T) {
	n := networkOf(netip.MustParsePrefix("10.213.7.0/24"))
	text := must.Get(networkConfig(n, "/x"))(t)
	var config struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet, RangeEnd string }
			}
		}
	}
	must.Do(t, json.Unmarshal(text, &config))
	addresses := config.Plugins[0].IPAM.Ranges[0][0]
	if last := netip.MustParseAddr(addresses.RangeEnd); last.Compare(n.node) >= 0 || !n.pods.Contains(last) {
		t.Errorf("pods have addresses up to %v, the node has %v", last, n.node)
	}
}
