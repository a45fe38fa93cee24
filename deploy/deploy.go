// Package deploy embeds what programs use of the files with which Pinfold is installed: the Helm
// chart, manifests that "make manifests" renders from it, and examples.
package deploy

import (
	"embed"
	"io/fs"
)

// NodeTopology is the CustomResourceDefinition of the kind NodeTopology, in YAML.
//
//go:embed chart/crds/nodetopology.yaml
var NodeTopology []byte

// Agent is the manifest of the agent.
//
//go:embed manifests/agent.yaml
var Agent []byte

// DefaultScheduler is the manifest of the scheduler that replaces the default one.
//
//go:embed manifests/scheduler-default.yaml
var DefaultScheduler []byte

//go:embed examples/*.yaml examples/ack/*.yaml
var examples embed.FS

// Examples returns the manifests in the directory examples, which its README.md describes.
func Examples() fs.FS {
	files, err := fs.Sub(examples, "examples")
	if err != nil {
		panic(err) // the directory is embedded
	}
	return files
}
