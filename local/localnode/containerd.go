package localnode

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"text/template"

	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/local/images"
)

// containerdTemplate is the part of containerd's configuration that differs from the defaults.
const containerdTemplate = `version = 4
root = {{.Root}}
state = {{.State}}
imports = []

[plugins.'io.containerd.server.v1.grpc']
  address = {{.Socket}}

[plugins.'io.containerd.server.v1.ttrpc']
  address = {{.TTRPCSocket}}

# Sockets of shims have names of 64 bytes; the path of this directory is short enough.
[plugins.'io.containerd.shim.v1.manager']
  socket_dir = {{.ShimSockets}}

[plugins.'io.containerd.internal.v1.opt']
  path = {{.Opt}}

[plugins.'io.containerd.nri.v1.nri']
  socket_path = {{.NRISocket}}
  plugin_path = {{.NRIPlugins}}
  plugin_config_path = {{.NRIPlugins}}

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = {{.Pause}}

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = {{.Hosts}}

[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  # Lowering oom_score_adj needs CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  cdi_spec_dirs = [{{.CDI}}]

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = [{{.Programs}}]
  conf_dir = {{.Network}}
  use_internal_loopback = true

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  runtime_path = {{.Shim}}

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = {{.Runc}}
  Root = {{.RuncRoot}}
  SystemdCgroup = {{.SystemdCgroup}}
`

// containerdConfig returns containerd's configuration.
func (n *Node) containerdConfig() ([]byte, error) {
	l := n.layout
	values := map[string]string{
		"Root":        l.path("containerd", "root"),
		"State":       l.path("containerd", "state"),
		"Opt":         l.path("containerd", "opt"),
		"Socket":      l.containerdSocket(),
		"TTRPCSocket": l.containerdSocket() + ".ttrpc",
		"ShimSockets": filepath.Join(l.run, "s"),
		"NRISocket":   l.nriSocket(),
		"NRIPlugins":  l.path("containerd", "nri"),
		"CDI":         l.path("cdi"),
		"Pause":       images.Pause,
		"Hosts":       l.path("config", hostsDir),
		"Programs":    n.options.Binaries,
		"Network":     l.path("config", networkDir),
		"Shim":        filepath.Join(n.options.Binaries, shimProgram),
		"Runc":        filepath.Join(n.options.Binaries, runcProgram),
		"RuncRoot":    l.path("runc"),
	}
	for name, value := range values {
		quoted, err := quoteTOML(value)
		if err != nil {
			return nil, err
		}
		values[name] = quoted
	}
	values["SystemdCgroup"] = strconv.FormatBool(n.options.driver() == kubepods.Systemd)
	config, err := template.New("containerd").Option("missingkey=error").Parse(containerdTemplate)
	if err != nil {
		return nil, fmt.Errorf("make containerd's configuration: %w", err)
	}
	var out bytes.Buffer
	if err := config.Execute(&out, values); err != nil {
		return nil, fmt.Errorf("make containerd's configuration: %w", err)
	}
	return out.Bytes(), nil
}

// hostsConfig returns the configuration that makes the node's registry the mirror of all registries
// and also their fallback ("server"), so that nothing is pulled from outside.
func hostsConfig(registry string) []byte {
	return fmt.Appendf(nil, `server = "http://%[1]s"

[host."http://%[1]s"]
  capabilities = ["pull", "resolve"]
`, registry)
}

// quoteTOML returns text as a literal string of TOML, which has no escape sequences.
func quoteTOML(text string) (string, error) {
	for _, r := range text {
		if r == '\'' || r < ' ' || r == 0x7f {
			return "", fmt.Errorf("%q contains %q, which containerd's configuration cannot express; choose another directory", text, r)
		}
	}
	return "'" + text + "'", nil
}
