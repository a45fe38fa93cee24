package localnode

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"

	"pinfold.dev/pinfold/local/images"
)

// configFiles are templates of the files in config/ of the node's directory.
//
//go:embed all:config
var configFiles embed.FS

// resolverFile is the resolver configuration that pods get, if it exists.
const resolverFile = "/etc/resolv.conf"

// configurations returns the components' configuration files by their paths in the node's directory.
func (n *Node) configurations(credentials Credentials) (map[string][]byte, error) {
	resolver := resolverFile
	if _, err := os.Stat(resolver); err != nil {
		resolver = ""
	}
	values := map[string]any{
		"Dir": n.layout.dir, "Run": n.layout.run, "Programs": n.options.Binaries,
		"Pause": images.Pause, "Registry": n.options.Registry,
		"Address": n.network.node, "Pods": n.network.pods, "LastPod": n.network.node.Prev(),
		"KubeletPort": n.ports.kubelet, "HealthPort": n.ports.kubeletHealth,
		"Driver": n.options.driver().String(), "FeatureGates": n.options.FeatureGates, "Resolver": resolver,
		"ClientCA": credentials.ClientCA, "Certificate": credentials.Certificate, "Key": credentials.Key,
	}
	files := map[string][]byte{}
	err := fs.WalkDir(configFiles, "config", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := configFiles.ReadFile(name)
		if err != nil {
			return err
		}
		files[name], err = render(string(text), values)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make the node's configuration: %w", err)
	}
	return files, nil
}

// render executes a template. Its functions return strings of JSON, which are also strings of YAML and
// TOML: json of a value, path of elements that it joins.
func render(text string, values any) ([]byte, error) {
	quote := func(value any) (string, error) {
		quoted, err := json.Marshal(value)
		return string(quoted), err
	}
	functions := template.FuncMap{"json": quote, "path": func(elements ...string) (string, error) { return quote(filepath.Join(elements...)) }}
	parsed, err := template.New("").Option("missingkey=error").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, values)
	return out.Bytes(), err
}
