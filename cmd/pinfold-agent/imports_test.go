package main

import (
	"slices"
	"testing"

	"pinfold.dev/pinfold/cmd/frame/frametest"
)

// TestSmallAgent keeps what the agent has no use for, but libraries have, out of a program that is
// root on each node.
func TestSmallAgent(t *testing.T) {
	frametest.LinksNone(t, "github.com/google/cel-go", "go.opentelemetry.io/otel/sdk", "k8s.io/kubernetes", "html/template")
	if slices.Contains(frametest.Linked(t), "k8s.io/client-go/informers") {
		t.Error("it must not link the informers of all kinds: k8s.io/client-go/informers")
	}
}
