package agent

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/batch"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/scx"
	"pinfold.dev/pinfold/linux/weight"
)

// Cleanup restores the cgroups to the settings of the kubelet, and deletes the node's topology
// object, lease and conditions, and its capacity for batch pods. The agent must not be running.
func Cleanup(ctx context.Context, o Options) (control.Result, error) {
	o = o.withDefaults()
	release, err := lock(o.RunDir)
	if err != nil {
		return control.Result{}, err
	}
	defer release()
	if err := checkClaims(ctx, o); err != nil {
		return control.Result{}, err
	}
	result, errGroups := restoreGroups(ctx, o)
	if errGroups != nil {
		errGroups = fmt.Errorf("restore the control groups: %w", errGroups)
	}
	return result, errors.Join(errGroups, deleteTopology(ctx, o), deleteLease(ctx, o), cleanNode(ctx, o))
}

// checkClaims returns an error if a pod has a resource claim for CPUs, served or not: without the driver,
// the kubelet cannot end it.
func checkClaims(ctx context.Context, o Options) error {
	given, _ := savedAllocations(&o) // what cannot be read is not worth keeping the settings
	pods, err := podsOf(ctx, o)
	if err != nil {
		if len(given) == 0 {
			return nil // the groups can be restored without the API server
		}
		return err
	}
	for _, pod := range pods {
		has := len(given[pod.UID].Claims) > 0
		if !has && !api.HasEnded(pod) {
			if has, err = hasClaim(ctx, o, pod); err != nil {
				return err
			}
		}
		if has {
			return fmt.Errorf("pod %s/%s has a resource claim for CPUs, and the kubelet cannot end it without the agent: "+
				"run the agent, delete such pods of node %s, and repeat this", pod.Namespace, pod.Name, o.NodeName)
		}
	}
	return nil
}

// hasClaim reports whether a device of the node is allocated to a claim of a pod. An agent that serves
// claims may read them, so one that may not has none.
func hasClaim(ctx context.Context, o Options, pod *corev1.Pod) (bool, error) {
	for _, name := range dra.ClaimNames(pod) {
		claim, err := o.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("read the resource claims of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.Driver == dra.Driver && result.Pool == o.NodeName {
				return true, nil
			}
		}
	}
	return false, nil
}

// podsOf returns the pods of the node.
func podsOf(ctx context.Context, o Options) ([]*corev1.Pod, error) {
	list, err := o.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: onNode(o.NodeName)})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", o.NodeName, err)
	}
	pods := []*corev1.Pod{}
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return sortPods(pods), nil
}

// restoreGroups does nothing if the last agent has saved that none of its settings is in force: others
// are those of other programs.
func restoreGroups(ctx context.Context, o Options) (result control.Result, err error) {
	k, err := openKernel(o.Root)
	if err != nil {
		return result, err
	}
	defer k.groups.Close()
	errWeights := weight.Clean(k.groups) // of a recording that ended with the agent's container
	if f, saved := savedForce(o.RunDir); saved {
		return result, errors.Join(errWeights, saveForce(o.RunDir, f), remove(allocationsFile(o.RunDir)))
	}
	o.Restore = true
	e := newEngine(o, k)
	kubelet, err := o.Kubelet(ctx)
	if last := savedKubelet(o.RunDir); err != nil && last != nil {
		kubelet, err = *last, nil
	}
	pods, errPods := podsOf(ctx, o)
	if err := errors.Join(err, errPods); err != nil {
		return result, err
	}
	e.setKubelet(kubelet)
	e.pods.list = func() []*corev1.Pod { return pods }
	e.step(control.Event{Reserved: new(ledger.MilliCPU), Pods: pods}) // nothing is allocated
	var errStatic error
	if e.control.Pods.NeedsStaticPods() && o.StaticPods != nil {
		var static map[ledger.PodID]types.NamespacedName
		static, errStatic = o.StaticPods(ctx)
		e.step(control.Event{StaticPods: static})
	}
	r := newRounds(e)
	e.with(func(*control.Control) {
		if err = r.readMachine(); err == nil {
			_, err = r.observe()
		}
		if err == nil {
			result = e.decide()
		}
	})
	if err != nil {
		return result, err
	}
	var paths []string
	made, err := k.naming.Pods(k.groups)
	for _, p := range made {
		paths = append(paths, p.Path)
	}
	err = errors.Join(err, r.partial, result.Err(), k.units.flush(ctx, flushLimit))
	if err == nil {
		err = errors.Join(saveForce(o.RunDir, force{ever: true}), remove(allocationsFile(o.RunDir)))
	}
	return result, errors.Join(errWeights, errStatic, err, (&batch.Cookies{Groups: k.groups, RunDir: o.RunDir}).Forget(paths),
		scx.TurnBack(k.groups, paths))
}

func deleteTopology(ctx context.Context, o Options) error {
	err := o.Topologies.Delete(ctx, o.NodeName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete topology %s: %w", o.NodeName, err)
	}
	return nil
}

func deleteLease(ctx context.Context, o Options) error {
	if o.LeaseNamespace == "" {
		return nil
	}
	err := o.Client.CoordinationV1().Leases(o.LeaseNamespace).Delete(ctx, o.NodeName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s/%s: %w", o.LeaseNamespace, o.NodeName, err)
	}
	return nil
}

// cleanNode removes what the agent has written to the status of the Node object.
func cleanNode(ctx context.Context, o Options) error {
	node, err := o.Client.CoreV1().Nodes().Get(ctx, o.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get node %s: %w", o.NodeName, err)
	}
	return errors.Join(deleteBatchCapacity(ctx, o.Client, node), deleteCondition(ctx, o.Client, node, api.BatchStarved),
		deleteCondition(ctx, o.Client, node, nodetopology.BindingCondition))
}
