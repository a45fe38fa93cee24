package cluster

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/evict"
	"pinfold.dev/pinfold/local/localcluster"
)

// setStarved writes the agent's condition about batch pods.
func (c *test) setStarved(node string, status corev1.ConditionStatus) {
	c.Helper()
	_, err := c.client.CoreV1().Nodes().Patch(c.Context(), node, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":%q}]}}`, api.BatchStarved, status), metav1.PatchOptions{}, "status")
	c.must(err)
}

// protect creates a PodDisruptionBudget that keeps the pods with a label app.
func (c *test) protect(app string) {
	c.Helper()
	budgets := c.client.PolicyV1().PodDisruptionBudgets(c.home)
	_, err := budgets.Create(c.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}, metav1.CreateOptions{})
	c.must(err)
}

// TestBatchEviction: a scheduler that may evict batch pods evicts the youngest one that no
// PodDisruptionBudget protects from a node on which they starve, with the rights of its manifest.
func TestBatchEviction(t *testing.T) {
	c := begin(t)
	const pod = `
metadata: {name: %s, labels: {pinfold.dev/qos: %q, app: %s}}
spec:
  schedulerName: ` + ownName + `
  nodeSelector: {kubernetes.io/hostname: ` + small0 + `}
  containers: [{name: app, image: app}]
`
	c.startScheduler(c.ownConfiguration("{leaderElect: false}", "{kubeconfig: "+filepath.Join(c.dir, "config", localcluster.Scheduler+".kubeconfig")+"}") + "      evictBatchPods: true\n")
	names := []string{"oldest", "youngest", "protected", "online"}
	for i, name := range names {
		if i > 0 {
			time.Sleep(time.Second) // the unit of times of creation
		}
		c.create(fmt.Sprintf(pod, name, map[bool]string{true: "LS", false: "BE"}[name == "online"], name))
		c.bound(name)
		c.runs(name)
	}
	c.protect("protected")
	c.setStarved(small0, corev1.ConditionTrue)
	defer c.setStarved(small0, corev1.ConditionFalse)
	c.event("youngest", evict.Event, "batch pods starve on node "+small0)
	c.eventually("pod youngest is deleted", func() error {
		if _, err := c.podAPI().Get(c.Context(), "youngest", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there (%w)", err)
		}
		return nil
	})
	// Its replacement has no request, and is not placed there before there is CPU time.
	c.create(fmt.Sprintf(pod, "again", "BE", "again"))
	c.waits("again", "1 has no CPU time left for batch pods")
	c.setStarved(small0, corev1.ConditionFalse)
	c.bound("again")
	for _, name := range []string{"oldest", "protected", "online"} {
		if pod := c.pod(name); pod.DeletionTimestamp != nil {
			t.Errorf("pod %s is deleted, too", name)
		}
	}
}
