//go:build linux

package main

import (
	"testing"

	"pinfold.dev/pinfold/cmd/frame/frametest"
)

func TestCompletion(t *testing.T) { frametest.Completion(t, "testdata/completion/completion.txtar") }

// TestNames calls the command as kubectl does.
func TestNames(t *testing.T) {
	for argv0, want := range map[string]string{
		"/usr/bin/pinfold":                  "pinfold status",
		"/home/u/.krew/bin/kubectl-pinfold": "kubectl pinfold status",
		"bin/kubectl_complete-pinfold":      "kubectl pinfold __complete status",
	} {
		name, args := calledAs([]string{argv0, "status"})
		for _, arg := range args {
			name += " " + arg
		}
		if name != want {
			t.Errorf("%s is %q, want %q", argv0, name, want)
		}
	}
}
