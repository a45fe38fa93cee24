package agent

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/claims"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/linux/sysfs"
)

// newClaims returns the driver for resource claims.
func newClaims(e *engine) *claims.Driver {
	files := filepath.Join(e.RunDir, "claims")
	host := files
	if inside, err := filepath.Rel(e.Root, files); err == nil {
		host = filepath.Join("/", inside)
	}
	roots := sync.OnceValue(func() map[topology.NUMAID][]string { return sysfs.PCIeRoots(os.DirFS(filepath.Join(e.Root, "sys"))) })
	return claims.New(claims.Options{Client: e.Client, NodeName: e.NodeName, Offers: e.Devices != "", KubeletDir: e.KubeletDir, CDIDir: e.CDIDir,
		Files: files, HostFiles: host,
		Devices: func() ([]dra.Device, func(dra.Features) []resourceapi.Device, error) { return e.devices(roots) },
		Give:    e.claim, Prepared: e.prepared, TakeBack: e.unclaim, Kept: e.claimed, Unserved: e.unserved, Forfeit: e.forfeit,
		Tell: func(pod *corev1.Pod, text string) {
			e.reports.warn(control.Notice{Pod: pod, Reason: groups.GivenBack, Message: text})
		},
		Now: e.Now, Period: e.Period, RetryAfter: e.RetryAfter, Log: e.Log, Dedup: e.reports.dedup})
}

// servesClaims reports whether claims are served, or some still have CPUs.
func (e *engine) servesClaims() bool { return e.Devices != "" || len(e.claimed()) > 0 }

// devices returns the devices of the node, and how they are published.
func (e *engine) devices(roots func() map[topology.NUMAID][]string) (devices []dra.Device, describe func(dra.Features) []resourceapi.Device, err error) {
	var machine *topology.Machine
	e.with(func(c *control.Control) {
		devices, err = c.Devices(cmp.Or(e.Devices, dra.ByNUMA))
		machine = e.status.Machine
	})
	if err != nil {
		return nil, nil, err
	}
	return devices, func(f dra.Features) (all []resourceapi.Device) {
		for _, d := range devices {
			var near []string
			for _, id := range machine.NUMANodesOf(d.CPUs) {
				near = append(near, roots()[id]...)
			}
			slices.Sort(near)
			if d.Size > 0 {
				all = append(all, d.Describe(machine, slices.Compact(near), f))
			}
		}
		return all
	}, nil
}

// claim allocates CPUs to a pod whose claims read returns.
func (e *engine) claim(pod types.UID, read func(*corev1.Pod, []dra.Device) (dra.Request, error)) (given api.Allocation, err error) {
	e.update(func() {
		var request dra.Request
		if request, err = e.claimRequest(pod, read); err != nil {
			return
		}
		if err = e.control.Claim(e.Now(), pod, request); err == nil {
			e.decide(nodeplan.Ref{Pod: ledger.PodID(pod)})
			given, err = e.status.Allocations[pod], e.unsaved
		}
	})
	return given, err
}

// prepared records whether the claims of a pod were served, and why not.
func (e *engine) prepared(pod types.UID, err error) {
	e.with(func(c *control.Control) {
		if c.Prepared(pod, err) {
			e.requestRound() // which tells the pod
		}
	})
}

func (e *engine) claimRequest(uid types.UID, read func(*corev1.Pod, []dra.Device) (dra.Request, error)) (dra.Request, error) {
	e.updatePods()
	pods, machine := e.pods.list(), e.status.Machine
	at := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid })
	if at < 0 || machine == nil {
		return dra.Request{}, fmt.Errorf("%w: the agent does not know the pod or the machine", control.ErrNotYet)
	}
	// A claim may have been allocated when the devices were others.
	return read(pods[at], slices.Concat(dra.Devices(machine, dra.ByNUMA), dra.Devices(machine, dra.ByPackage), dra.Devices(machine, dra.ByMachine)))
}

// unclaim takes back what was allocated for claims.
func (e *engine) unclaim(uids []types.UID) (err error) {
	e.update(func() {
		for e.saving { // so that this is saved before the answer
			e.saved.Wait()
		}
		e.control.Step(control.Event{Unclaim: uids})
		e.decide()
		err = e.unsaved
	})
	return err
}

// unserved returns the pods with claims that were given no CPUs for any.
func (e *engine) unserved() (pods []*corev1.Pod) {
	e.with(func(c *control.Control) {
		e.updatePods()
		pods = c.Unserved()
	})
	return pods
}

// forfeit decides that a pod never gets CPUs for its claims, and returns why, or nil if it may.
func (e *engine) forfeit(pod types.UID, read func(*corev1.Pod, []dra.Device) (dra.Request, error)) (why error) {
	e.with(func(c *control.Control) {
		if request, err := e.claimRequest(pod, read); !errors.Is(err, control.ErrNotYet) {
			why = c.Forfeit(pod, request, err)
		}
	})
	if why != nil {
		e.requestRound() // which tells the pod
	}
	return why
}

// claimed returns the UIDs of the claims that have CPUs, or had some that their pods have lost.
func (e *engine) claimed() (uids map[types.UID]bool) {
	e.with(func(c *control.Control) { uids = c.Claimed() })
	return uids
}
