package nri

import (
	"context"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// Handler decides about containers. Its methods are called one at a time, block the runtime's
// request, and must return within the runtime's time limit (2 s by default). An error of Create or
// Start fails the container's creation or start; everything that a container can do without must
// therefore be reported in another way.
type Handler interface {
	// Synchronize is called with all that is there whenever the runtime has been connected. It
	// returns settings for containers that should have others, by id.
	Synchronize(ctx context.Context, pods []Pod, containers []Container) map[string]Settings
	// Create is called before a container is created.
	Create(ctx context.Context, pod Pod, c Container) (Settings, error)
	// Start is called when the container's cgroup exists and before its first instruction runs. It
	// writes all of the container's settings that differ there: also those given to Create, which
	// are not always taken (package comment, "Other plugins").
	Start(ctx context.Context, pod Pod, c Container) error
	// Update is called when somebody (the kubelet, at a resize) updates a container's resources.
	// The settings take the place of what was asked for.
	Update(ctx context.Context, pod Pod, c Container) Settings
	// Stopped is called when a container has stopped, or could not be created.
	Stopped(ctx context.Context, pod Pod, c Container)
}

// Pod is a pod sandbox.
type Pod struct {
	ID        string // of the sandbox
	UID       ledger.PodID
	Namespace string
	Name      string
	// CgroupParent is the pod's group as the kubelet names it.
	CgroupParent string
	Annotations  map[string]string
}

// Container is a container of a pod.
type Container struct {
	ID      string
	PodID   string // of the sandbox
	Name    string
	Running bool
	// CgroupsPath is the container's group in the form of the OCI runtime.
	CgroupsPath string
}

// Settings are what a handler wants of a container; zero values leave alone what the runtime would
// do. Those that the kernel refuses fail the container's creation: CPUs that its pod's group does
// not have, and with cgroup v1 a quota above that of the pod's group.
type Settings struct {
	CPUs cpuset.Set
	// Quota is CPU time per Period, or bandwidth.Unlimited; 0 leaves quota and period alone.
	Quota  time.Duration
	Period time.Duration
}
