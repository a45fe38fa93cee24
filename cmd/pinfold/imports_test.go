package main

import (
	"slices"
	"testing"

	"pinfold.dev/pinfold/cmd/frame/frametest"
)

// TestSmallClient keeps the command small and quick to build and to start. "pinfold status" needs a
// client; a whole component of Kubernetes, or the client for all kinds, would make the command
// several times as large.
func TestSmallClient(t *testing.T) {
	frametest.LinksNone(t, "k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver", "k8s.io/component-base", "k8s.io/kube-scheduler",
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/informers", "sigs.k8s.io/kwok", "go.etcd.io")
}

// TestWithoutLinux keeps the command buildable for other systems, where topology, place, trace and
// status are useful: there it must not import packages that need Linux.
func TestWithoutLinux(t *testing.T) {
	all := frametest.Linked(t, "GOOS=darwin", "GOARCH=arm64")
	for name, want := range map[string]bool{"linux/cgroup": false, "linux/confine": false, "linux/kubepods": false, "linux/sampler": false, "tracefile": true, "kube/survey": true} {
		if slices.Contains(all, "pinfold.dev/pinfold/"+name) != want {
			t.Errorf("%s is linked: %v, want %v: files for Linux only have a build constraint", name, !want, want)
		}
	}
}
