// Package manifests contains the manifests of the scheduler and the agent, for kubectl apply. They
// are rendered from the chart in deploy/chart by "make manifests". Programs use the embedded ones.
package manifests

import _ "embed"

// Agent is the manifest of the agent.
//
//go:embed agent.yaml
var Agent []byte

// DefaultScheduler is the manifest of the scheduler that replaces the default one.
//
//go:embed scheduler-default.yaml
var DefaultScheduler []byte
