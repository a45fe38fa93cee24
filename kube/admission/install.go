package admission

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Install creates the policy and its binding. The API server follows them within
// about a second.
func Install(ctx context.Context, client kubernetes.Interface) error {
	registration := client.AdmissionregistrationV1()
	if _, err := registration.ValidatingAdmissionPolicies().Create(ctx, Policy(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create admission policy %s: %w", Name, err)
	}
	if _, err := registration.ValidatingAdmissionPolicyBindings().Create(ctx, Binding(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("put admission policy %s in force: %w", Name, err)
	}
	return nil
}
