package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/test/wait"
)

// TestTwoReleases: a second release, with agents only, in a namespace of its own. Each one can be
// upgraded and removed, and the other one keeps its rights and stays confined to its nodes. The device
// classes of claims are those of one release.
func TestTwoReleases(t *testing.T) {
	const second = "canary"
	c := begin(t)
	installed := map[string]bool{}
	run := func(name, in string, args ...string) {
		t.Helper()
		args = append(args, "--namespace", in, "--kubeconfig", c.Kubeconfig())
		if _, err := helm(t, helm4, slices.Concat(args[:1], []string{name}, args[1:])...); err != nil {
			t.Fatal(err)
		}
		installed[in] = true
	}
	remove := func(name, in string) {
		c.uninstall(t, helm4, name, in)
		delete(installed, in)
	}
	t.Cleanup(func() {
		for in := range installed {
			c.uninstall(t, helm4, map[string]string{namespace: release, second: second}[in], in)
		}
	})
	check := func(what string) {
		t.Helper()
		for _, in := range []string{namespace, second} {
			c.agentRights(t, what, in, installed[in])
		}
	}
	first := []string{"install", chartDir, "--set", registry + ",agent.claims=numa"}
	run(release, namespace, first...)
	c.createNode(t, "own")
	c.createNode(t, "other")
	run(second, second, "install", chartDir, "--create-namespace",
		"--set", registry+",scheduler.enabled=false,agent.nodeSelector.canary=yes,priorityClasses.create=true,agent.leaseNamespace="+namespace)
	check("both installed")
	run(second, second, "upgrade", chartDir, "--reuse-values", "--set", "agent.burst.policy=auto")
	run(release, namespace, "upgrade", chartDir, "--reuse-values", "--set", "agent.burst.policy=auto,priorityClasses.create=true")
	check("both upgraded")
	remove(second, second)
	check("the second removed")
	run(second, second, "install", chartDir, "--set", registry+",scheduler.enabled=false,agent.leaseNamespace="+namespace)
	remove(release, namespace)
	check("the first removed")
	run(release, namespace, first...)
	_, err := helm(t, helm4, "install", release, chartDir, "--set", registry, "--namespace", "default", "--kubeconfig", c.Kubeconfig())
	if err == nil || !strings.Contains(err.Error(), `"meta.helm.sh/release-namespace" must equal "default": current value is "`+namespace) {
		t.Errorf("the same name in another namespace: %v", err)
	}
	_, err = helm(t, helm4, "upgrade", second, chartDir, "--reuse-values", "--set", "agent.claims=numa", "--namespace", second, "--kubeconfig", c.Kubeconfig())
	if err == nil || !strings.Contains(err.Error(), "the device classes belong to the release "+namespace+"/"+release+": ") {
		t.Errorf("claims in a second release: %v", err)
	}
	check("both")
}

// agentRights checks that the agents of a namespace have their rights, about their own nodes only,
// or that they have none.
func (c controlPlane) agentRights(t *testing.T, what, in string, want bool) {
	t.Helper()
	user := "system:serviceaccount:" + in + ":pinfold-agent"
	for _, right := range []authorizationv1.ResourceAttributes{
		{Verb: "patch", Resource: "nodes", Subresource: "status"},
		{Verb: "create", Group: "pinfold.dev", Resource: "nodetopologies"},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace},
		{Verb: "delete", Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
		becomes(t, what+": "+user+" may "+right.Verb+" "+right.Resource, want, func() (bool, error) {
			got, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
			return err == nil && got.Status.Allowed, err
		})
	}
	if !want {
		return
	}
	config := rest.CopyConfig(c.RESTConfig())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"own-0"}}}
	agent, err := client.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for node, confined := range map[string]bool{"own-0": false, "other-0": true} {
		becomes(t, what+": "+user+" is kept from node "+node, confined, func() (bool, error) {
			_, err := agent.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(`{"status":{"phase":""}}`),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
			if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "writes about that node only") {
				return true, nil
			}
			return false, err
		})
	}
}

// becomes waits until something is as wanted: the API server follows roles and policies with a delay.
func becomes(t *testing.T, what string, want bool, is func() (bool, error)) {
	t.Helper()
	wait.Until(t, what, func() error {
		got, err := is()
		if err == nil && got != want {
			err = fmt.Errorf("%v, want %v", got, want)
		}
		return err
	})
}
