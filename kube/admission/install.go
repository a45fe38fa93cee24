package admission

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Install creates the policies and their bindings. The API server follows them within
// about a second.
func Install(ctx context.Context, client kubernetes.Interface) error {
	if err := install(ctx, client, Policy(), Binding()); err != nil {
		return err
	}
	if err := install(ctx, client, AgentPolicy(), AgentBinding()); err != nil {
		return err
	}
	return InstallFence(ctx, client, LeaseNamespace, LeaseName)
}

// InstallFence creates the policy for the lease of a scheduler, and its binding.
func InstallFence(ctx context.Context, client kubernetes.Interface, namespace, lease string) error {
	return install(ctx, client, Fence(namespace, lease), FenceBinding(namespace, lease))
}

func install(ctx context.Context, client kubernetes.Interface, policy *admissionv1.ValidatingAdmissionPolicy,
	binding *admissionv1.ValidatingAdmissionPolicyBinding) error {
	registration := client.AdmissionregistrationV1()
	if _, err := registration.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create admission policy %s: %w", policy.Name, err)
	}
	if _, err := registration.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("put admission policy %s in force: %w", policy.Name, err)
	}
	return nil
}
