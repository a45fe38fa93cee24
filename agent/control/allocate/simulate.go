package allocate

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// Simulate allocates CPUs to the pods of a node without a kernel, and returns what they have.
func (c *Controller) Simulate(now time.Time, objects []*corev1.Pod, index *placement.Index, books ledger.Config) api.Allocations {
	r := groups.Round{Groups: &groups.Groups{Online: index.Machine().Online()}, Now: now, Binds: true, Index: index, Books: books}
	v := groups.View{Layout: cgroup.Layout{CPU: cgroup.V2, CPUSet: cgroup.V2}, Settings: map[string]cgroup.Settings{}}
	for _, pod := range objects {
		if !api.HasEnded(pod) { // the kubelet has admitted all others
			path := "/" + string(pod.UID)
			v.Settings[path] = cgroup.Settings{}
			v.Pods = append(v.Pods, kubepods.Pod{Path: path, UID: string(pod.UID)})
		}
	}
	r.Observe(v)
	p := pods.New(pods.Config{})
	p.SetPods(objects, r.Runs)
	r.Locate(p.Containers())
	r.Pods = p.All
	c.Prepare(&r)
	c.Save()
	c.Saved(&r, nil)
	return c.InForce()
}
