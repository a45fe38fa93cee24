package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pinfold.dev/pinfold/agent/uninstall"
	"pinfold.dev/pinfold/local/localcluster"
)

// managers returns who manages which fields of a DaemonSet, without its status.
func managers(set *appsv1.DaemonSet) map[string]string {
	fields := map[string]string{}
	for _, e := range set.ManagedFields {
		if e.Subresource == "" {
			fields[e.Manager+" "+string(e.Operation)] += e.FieldsV1.String()
		}
	}
	return fields
}

// TestUninstall turns the pods of a DaemonSet into cleanups. A node that is down is named, and the
// DaemonSet put back, until it is back.
func TestUninstall(t *testing.T) {
	c := begin(t)
	const down = "down-test"
	nodes := c.client.CoreV1().Nodes()
	c.createNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: down}})
	labels := map[string]string{"app": "agent-test"}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromInt32(9652)}}}
	sets := c.client.AppsV1().DaemonSets(c.home)
	_, err := sets.Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-test"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{
						Name: "agent", Image: "example.com/pinfold-agent:v1",
						Args:          []string{"run", "--host-root=/host", "--period=1s", "--lease-namespace=there", "-v"},
						LivenessProbe: probe, ReadinessProbe: probe,
						Ports: []corev1.ContainerPort{{ContainerPort: 9652}},
					}},
				},
			},
		},
	}, metav1.CreateOptions{})
	c.must(err)
	all := 0
	agents := func() (set *appsv1.DaemonSet) {
		c.Helper()
		c.eventually("agents run on all nodes but one", func() (err error) {
			if set, err = sets.Get(t.Context(), "agent-test", metav1.GetOptions{}); err != nil {
				return err
			}
			all = int(set.Status.DesiredNumberScheduled)
			if ready := int(set.Status.NumberReady); all < 2 || ready != all-1 || set.Status.ObservedGeneration != set.Generation ||
				int(set.Status.UpdatedNumberScheduled) < ready {
				return fmt.Errorf("the DaemonSet is %+v", set.Status)
			}
			return nil
		})
		return set
	}
	before := agents()
	// run ends soon after it has said something, if that is not "".
	run := func(until string) (said []string, err error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		err = uninstall.Run(ctx, uninstall.Options{Client: c.client, DaemonSets: []types.NamespacedName{{Namespace: c.home, Name: "agent-test"}},
			Progress: func(text string) {
				if said = append(said, text); text == until {
					time.AfterFunc(time.Second, func() { cancel(errors.New("enough")) })
				}
			}})
		return said, err
	}
	var said []string
	c.eventually("all nodes but one are cleaned up", func() error {
		if said, err = run(fmt.Sprintf("%d of %d nodes cleaned up", all-1, all)); err == nil {
			c.Fatal("a node that is down was cleaned up")
		}
		if want := "1 node not cleaned up:\n  " + down + ": its cleanup has not ended: is the node down?\n"; !strings.HasPrefix(err.Error(), want) {
			return err
		}
		return nil
	})
	if said[len(said)-1] != "the agents run again" || !strings.Contains(err.Error(), "enough") {
		t.Errorf("it said %q and %v", said, err)
	}
	after := agents()
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the DaemonSet (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(managers(before), managers(after)); diff != "" {
		t.Errorf("who manages the DaemonSet (-before +after):\n%s", diff)
	}

	// The node comes back.
	_, err = nodes.Patch(t.Context(), down, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, localcluster.SimulatedAnnotation, localcluster.SimulatedValue), metav1.PatchOptions{})
	c.must(err)
	if said, err = run(""); err != nil || len(said) == 0 || said[len(said)-1] != fmt.Sprintf("%d of %[1]d nodes cleaned up", all) {
		t.Errorf("it said %q and %v", said, err)
	}
	set, err := sets.Get(t.Context(), "agent-test", metav1.GetOptions{})
	c.must(err)
	spec := set.Spec.Template.Spec
	args := map[string][]string{}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		args[container.Name] = container.Args
		if container.LivenessProbe != nil || container.ReadinessProbe != nil {
			t.Errorf("container %s has a probe of the agent", container.Name)
		}
	}
	want := map[string][]string{"cleanup": {"cleanup", "--host-root=/host", "--lease-namespace=there", "-v"}, "agent": {"wait"}}
	if diff := cmp.Diff(want, args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	said = nil
	err = uninstall.Run(t.Context(), uninstall.Options{Client: c.client,
		DaemonSets: []types.NamespacedName{{Namespace: c.home, Name: "missing"}, {Namespace: c.home, Name: "agent-test"}},
		Progress:   func(text string) { said = append(said, text) }})
	slices.Sort(said)
	if want := []string{fmt.Sprintf("agent-test: %d of %[1]d nodes cleaned up", all),
		"missing: there is no DaemonSet " + c.home + "/missing: no agent to clean up after"}; err != nil || !slices.Equal(said, want) {
		t.Errorf("with two DaemonSets, of which one is missing, it said %q and %v", said, err)
	}
}
