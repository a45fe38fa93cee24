package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Cleanup gives everything back: control groups are as the kubelet would have them, and
// the node's topology object, lease and condition are gone. The agent must not be running.
func Cleanup(ctx context.Context, o Options) (control.Result, error) {
	o = o.withDefaults()
	release, err := lock(o.RunDir)
	if err != nil {
		return control.Result{}, err
	}
	defer release()
	result, errGroups := giveBack(ctx, o)
	if errGroups != nil {
		errGroups = fmt.Errorf("give the control groups back: %w", errGroups)
	}
	return result, errors.Join(errGroups, removeTopology(ctx, o), removeLease(ctx, o), removeCondition(ctx, o))
}

func giveBack(ctx context.Context, o Options) (control.Result, error) {
	k, err := openKernel(o.Root)
	if err != nil {
		return control.Result{}, err
	}
	c := control.New(o.Config)
	machine, err := k.machine()
	if err != nil {
		return control.Result{}, err
	}
	c.SetMachine(machine)
	kubelet, err := o.Kubelet(ctx)
	if err != nil {
		last := lastKubelet(o.RunDir)
		if last == nil {
			return control.Result{}, err
		}
		kubelet = *last
	}
	c.SetKubelet(kubelet)
	list, err := o.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", o.NodeName).String()})
	if err != nil {
		return control.Result{}, fmt.Errorf("list the pods of node %s: %w", o.NodeName, err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	c.SetPods(sortPods(pods))
	var errStatic error
	if c.AwaitsStaticPods() && o.StaticPods != nil {
		var static map[ledger.PodID]types.NamespacedName
		if static, errStatic = o.StaticPods(ctx); errStatic == nil {
			c.SetStaticPods(static)
		}
	}
	if err := k.findNaming(kubelet.CgroupRoot); err != nil {
		return control.Result{}, err
	}
	v, partial, err := view(k.groups, k.naming, c.Known())
	if err != nil {
		return control.Result{}, err
	}
	c.Observe(v)
	result := c.GiveBack().Carry(k.groups.Apply)
	return result, errors.Join(errStatic, partial, result.Err())
}

func removeTopology(ctx context.Context, o Options) error {
	objects := o.Topologies.TopologyV1alpha2().NodeResourceTopologies()
	have, err := objects.Get(ctx, o.NodeName, metav1.GetOptions{})
	if err == nil {
		if _, ours := nodetopology.Owner(have); !ours {
			return nil
		}
		err = objects.Delete(ctx, o.NodeName, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &have.ResourceVersion}})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete topology %s: %w", o.NodeName, err)
	}
	return nil
}

func removeCondition(ctx context.Context, o Options) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []map[string]any{
		{"type": nodetopology.BindingCondition, "$patch": "delete"}}}})
	if err != nil {
		return err
	}
	if err := patchStatus(ctx, o.Client, o.NodeName, patch); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
