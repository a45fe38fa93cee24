package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/localnode"
)

// The namespaces of the driver's pods. The admission policy covers only the first.
const (
	Guarded   = "guarded"
	Unguarded = "unguarded"
)

// TenantUser is the name of a service account that may edit both namespaces.
const TenantUser = "system:serviceaccount:" + Guarded + ":tenant"

// The priority classes of the driver's pods.
const (
	lowPriority  = "history-low"
	highPriority = "history-high"
)

// patience is the number of attempts at a request, with pauses of [retryPause]. A slow API server is
// given more time than one that does not answer.
const patience = 2400

// Driver executes random operations on a cluster. The operations depend only on the random source,
// not on the cluster's answers. So a run can be repeated: with the same operations in the same
// order, though with different timing.
type Driver struct {
	Client     kubernetes.Interface // as an administrator
	Tenant     kubernetes.Interface // as TenantUser
	Topologies nodetopology.Client
	Random     *rand.Rand
	// Nodes are the nodes for pods. The driver may damage and delete those in Victims.
	Nodes, Victims []string
	// Simulated means that no kubelet runs, so that the driver writes the status of pods.
	Simulated bool
	// Pods is the approximate number of pods at a time.
	Pods int
	// SchedulerName is set in the pods' specs. "" is the default scheduler. Some pods name Stock
	// instead, a scheduler that knows nothing of Pinfold, unless it is "".
	SchedulerName, Stock string
	// Predictable leaves out what makes a scheduler's predictions wrong: edits of pods, and pods that
	// it has not bound.
	Predictable bool
	// Allocators are those of Nodes whose agent RestartAgent kills. The next one does not find what
	// the earlier one has saved, if it is to forget.
	Allocators   []string
	RestartAgent func(ctx context.Context, node string, forgets bool) error
	// Kubelets is called after each operation. It may be nil.
	Kubelets func(ctx context.Context) error
	// Image is the image of all containers. CPUs is the largest limit of a container.
	Image string
	CPUs  int
	// Components may be killed and stopped. Faults is the relative frequency of that.
	Components []string
	Faults     int
	// Signal sends a signal to the process of a component, as Processes.Signal does.
	Signal func(ctx context.Context, component string, signal syscall.Signal) error
	// Compact removes earlier revisions from the store. It may be nil.
	Compact func(ctx context.Context) error
	// Pause is the time to wait after each operation.
	Pause time.Duration
	// Log is called for each operation.
	Log func(format string, args ...any)

	// Done counts the operations by name.
	Done map[string]int

	pods []podName
	made int // number of pods, for their names
	step int
	// nodes is nil until the cluster is prepared.
	nodes *damage
}

type podName struct {
	namespace, name string
	node            string // that it selects
}

func (p podName) String() string { return p.namespace + "/" + p.name }

// Run executes a number of operations and then undoes the damage to nodes.
func (d *Driver) Run(ctx context.Context, operations int) error {
	if d.Done == nil {
		if err := d.prepare(ctx); err != nil {
			return err
		}
		d.Done, d.nodes = map[string]int{}, newDamage(d)
	}
	all := d.operations()
	for d.step = range operations {
		if err := d.nodes.undoDue(ctx, d.step); err != nil {
			return err
		}
		op := d.choose(all)
		d.Done[op.name]++
		if err := op.do(ctx); err != nil {
			return fmt.Errorf("operation %d: %s: %w", d.step, op.name, err)
		}
		if d.Kubelets != nil {
			if err := d.Kubelets(ctx); err != nil {
				return fmt.Errorf("after operation %d: %w", d.step, err)
			}
		}
		time.Sleep(d.Pause)
	}
	for step := range operations + maxUndo + 1 {
		if err := d.nodes.undoDue(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// Clean deletes all pods.
func (d *Driver) Clean(ctx context.Context) error {
	for _, namespace := range []string{Guarded, Unguarded} {
		if err := d.try(ctx, func() error {
			return d.Client.CoreV1().Pods(namespace).DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{})
		}); err != nil {
			return err
		}
	}
	for _, name := range d.Victims {
		if err := d.awaitReady(ctx, name); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	return nil
}

// awaitReady waits until pods can be scheduled to a node. If the controller manager could not
// remove the taint of a new node, it does not try again until the node changes
// (pkg/controller/nodelifecycle).
func (d *Driver) awaitReady(ctx context.Context, name string) error {
	nodes := d.Client.CoreV1().Nodes()
	for attempt := 1; ; attempt++ {
		node, err := await(ctx, d, func() (*corev1.Node, error) { return nodes.Get(ctx, name, metav1.GetOptions{}) })
		if err != nil {
			return err
		}
		reason := localnode.NotReady(node)
		if reason == "" {
			return nil
		}
		change := fmt.Appendf(nil, `{"metadata":{"annotations":{"history":%q}}}`, time.Now())
		if err := d.try(ctx, func() error {
			_, err := nodes.Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{})
			return err
		}); err != nil {
			return err
		}
		if attempt == 60 || !sleep.For(ctx, time.Second) {
			return errors.New(reason)
		}
	}
}

// prepare creates the namespaces, the tenant's permissions in them, and the priority classes.
func (d *Driver) prepare(ctx context.Context) error {
	for i, name := range []string{lowPriority, highPriority} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(1 + 1000*i)}
		if err := createObject(ctx, d, d.Client.SchedulingV1().PriorityClasses().Create, class); err != nil {
			return err
		}
	}
	for _, namespace := range []string{Guarded, Unguarded} {
		if err := d.prepareNamespace(ctx, namespace); err != nil {
			return fmt.Errorf("prepare namespace %s: %w", namespace, err)
		}
	}
	return nil
}

func (d *Driver) prepareNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if name == Unguarded {
		namespace.Labels = map[string]string{admission.UnprotectedLabel: "true"}
	}
	if err := createObject(ctx, d, d.Client.CoreV1().Namespaces().Create, namespace); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: TenantUser}},
	}
	if err := createObject(ctx, d, d.Client.RbacV1().RoleBindings(name).Create, binding); err != nil {
		return err
	}
	// The service account, the role and the priority classes become effective after a moment.
	pod := d.draw()
	pod.Namespace = name
	return d.await(ctx, func() error {
		_, err := d.Tenant.CoreV1().Pods(name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// try repeats a request until the API server answers. A rejection is not an error: the object has
// been deleted or changed, or must not be changed.
func (d *Driver) try(ctx context.Context, request func() error) error {
	return d.await(ctx, func() error {
		err := request()
		if wasRejected(err) {
			return nil
		}
		return err
	})
}

func wasRejected(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsForbidden(err) ||
		apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err)
}

// createObject creates an object, unless the API server rejects it.
func createObject[T any](ctx context.Context, d *Driver, create func(context.Context, T, metav1.CreateOptions) (T, error), object T) error {
	return d.try(ctx, func() error {
		_, err := create(ctx, object, metav1.CreateOptions{})
		return err
	})
}

// await repeats a request until it succeeds.
func (d *Driver) await(ctx context.Context, request func() error) error {
	for attempt := 1; ; attempt++ {
		err := request()
		if err == nil {
			return nil
		}
		if attempt == patience || !sleep.For(ctx, retryPause) {
			return fmt.Errorf("after %d attempts: %w", attempt, err)
		}
	}
}

// operation is something that the driver does, with its relative frequency.
type operation struct {
	name   string
	weight int
	do     func(context.Context) error
}

func (d *Driver) choose(all []operation) operation {
	sum := 0
	for _, op := range all {
		sum += op.weight
	}
	at := d.Random.IntN(sum)
	for _, op := range all {
		if at -= op.weight; at < 0 {
			return op
		}
	}
	panic("history: wrong sum of weights")
}

// operations returns the operations that are possible on this cluster.
func (d *Driver) operations() []operation {
	all := []operation{
		{"create", 30, d.create},
		{"replace", 30, d.replace},
		{"delete", 10, func(ctx context.Context) error { return d.delete(ctx, int64(d.Random.IntN(2))) }},
		{"force-delete", 6, func(ctx context.Context) error { return d.delete(ctx, 0) }},
		{"preempt", 3, d.preempt},
		{"relabel", 3, d.relabel},
	}
	if !d.Predictable {
		all = append(all, operation{"cease", 3, d.cease}, operation{"resize", 4, d.resize}, operation{"forge", 8, d.forge},
			operation{"create-bound", 4, d.createBound})
	}
	if d.Simulated {
		all = append(all, operation{"finish", 6, d.finish}, operation{"crash", 3, d.crash})
	}
	if len(d.Victims) > 0 {
		all = append(all,
			operation{"cordon", 2, d.nodes.cordon},
			operation{"reregister", 1, d.nodes.reregister},
			operation{"damage-topology", 1, d.nodes.damageTopology},
			operation{"delete-topology", 1, d.nodes.deleteTopology})
	}
	if len(d.Components) > 0 {
		all = append(all, operation{"kill", d.Faults, d.kill}, operation{"stop", 2 * d.Faults, d.stop})
	}
	if len(d.Allocators) > 0 {
		all = append(all, operation{"restart-agent", 4, d.restartAgent})
	}
	if d.Compact != nil {
		all = append(all, operation{"compact", 1, d.Compact})
	}
	return all
}
