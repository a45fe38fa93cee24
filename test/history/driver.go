package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	topologyclient "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/admission"
)

// The namespaces of the driver's pods. The admission policy covers the first alone.
const (
	Guarded   = "guarded"
	Unguarded = "unguarded"
)

// TenantUser is the tenant's name: a service account that may edit both namespaces.
const TenantUser = "system:serviceaccount:" + Guarded + ":tenant"

// The priority classes of the driver's pods.
const (
	lowPriority  = "history-low"
	highPriority = "history-high"
)

// patience is far above what anything takes on an idle machine.
const patience = 2 * time.Minute

// Driver carries out random operations on a cluster. What it does next depends on the
// random source alone, not on what the cluster answers, so that a run can be repeated:
// the same operations in the same order, though not at the same moments.
type Driver struct {
	Client     kubernetes.Interface // of an administrator
	Tenant     kubernetes.Interface // of somebody who may edit the two namespaces
	Topologies topologyclient.Interface
	Random     *rand.Rand
	// Nodes are simulated ones, of which the driver may do anything to Victims.
	Nodes, Victims []string
	// Simulated says that no kubelet runs: the driver writes what it says of its pods.
	Simulated bool
	// Pods is about how many there are at a time.
	Pods int
	// SchedulerName is in the pods' specs. "" is the default one.
	SchedulerName string
	// Image and CPUs are the containers' image and the most CPUs that one may ask for.
	Image string
	CPUs  int
	// Components may be killed and stopped, which is as frequent as Faults says.
	Components []string
	Faults     int
	// Signal sends a signal to the process of a component as soon as that serves.
	Signal func(ctx context.Context, component string, signal syscall.Signal) error
	// Compact drops what the store knows of earlier revisions. nil: it is not done.
	Compact func(ctx context.Context) error
	// Pause is waited after each operation.
	Pause time.Duration
	// Log takes a line for each operation.
	Log func(format string, args ...any)

	// Done counts the operations by name.
	Done map[string]int

	pods []podName
	made int
	step int
	undo map[int][]func(context.Context) error // by the step before which it is due
}

type podName struct{ namespace, name string }

func (p podName) String() string { return p.namespace + "/" + p.name }

// RunUntil carries out operations until a channel is closed.
func (d *Driver) RunUntil(ctx context.Context, over <-chan struct{}) error {
	for {
		select {
		case <-over:
			return nil
		default:
		}
		if err := d.Run(ctx, 1); err != nil {
			return err
		}
	}
}

// Run carries out a number of operations and then makes good what it did to nodes.
func (d *Driver) Run(ctx context.Context, operations int) error {
	d.undo = map[int][]func(context.Context) error{}
	if d.Done == nil {
		if err := d.prepare(ctx); err != nil {
			return err
		}
		d.Done = map[string]int{}
	}
	all := d.operations()
	for d.step = range operations {
		if err := d.makeGood(ctx, d.step); err != nil {
			return err
		}
		op := d.choose(all)
		d.Done[op.name]++
		if err := op.do(ctx); err != nil {
			return fmt.Errorf("operation %d: %s: %w", d.step, op.name, err)
		}
		time.Sleep(d.Pause)
	}
	for step := range operations + maxUndo + 1 {
		if err := d.makeGood(ctx, step); err != nil {
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
	return nil
}

// prepare makes the namespaces, what the tenant may do there, and the priority classes.
func (d *Driver) prepare(ctx context.Context) error {
	for i, name := range []string{lowPriority, highPriority} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(1 + 1000*i)}
		if err := d.try(ctx, func() error {
			_, err := d.Client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
			return err
		}); err != nil {
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
	if err := d.try(ctx, func() error {
		_, err := d.Client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: TenantUser}},
	}
	if err := d.try(ctx, func() error {
		_, err := d.Client.RbacV1().RoleBindings(name).Create(ctx, binding, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	// The service account, the role and the priority classes take a moment to arrive.
	pod := d.draw()
	pod.Namespace = name
	return d.await(ctx, func() error {
		_, err := d.Tenant.CoreV1().Pods(name).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// maxUndo bounds for how many steps something stays damaged.
const maxUndo = 20

// later makes something good after some operations.
func (d *Driver) later(steps int, do func(context.Context) error) {
	at := d.step + 1 + min(steps, maxUndo)
	d.undo[at] = append(d.undo[at], do)
}

func (d *Driver) makeGood(ctx context.Context, step int) error {
	due := d.undo[step]
	delete(d.undo, step)
	for _, do := range due {
		if err := d.await(ctx, func() error { return do(ctx) }); err != nil {
			return fmt.Errorf("make good before operation %d: %w", step, err)
		}
	}
	return nil
}

// try asks the API server until it answers. What an answer refuses is no error: the
// object is gone, has changed, or may not be changed.
func (d *Driver) try(ctx context.Context, request func() error) error {
	return d.await(ctx, func() error {
		err := request()
		if wasRefused(err) {
			return nil
		}
		return err
	})
}

func wasRefused(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsForbidden(err) ||
		apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err)
}

// await repeats a request until it succeeds.
func (d *Driver) await(ctx context.Context, request func() error) error {
	for deadline := time.Now().Add(patience); ; {
		err := request()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || !sleep.For(ctx, retryPause) {
			return fmt.Errorf("after %v: %w", patience, err)
		}
	}
}

// operation is one of what the driver can do, and how often it does it.
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
	panic("history: weights do not sum up")
}

// operations lists what is possible on this cluster.
func (d *Driver) operations() []operation {
	all := []operation{
		{"create", 30, d.create},
		{"replace", 30, d.replace},
		{"delete", 10, func(ctx context.Context) error { return d.delete(ctx, int64(d.Random.IntN(2))) }},
		{"force-delete", 6, func(ctx context.Context) error { return d.delete(ctx, 0) }},
		{"cease", 3, d.cease},
		{"resize", 4, d.resize},
		{"preempt", 3, d.preempt},
		{"relabel", 3, d.relabel},
		{"forge", 8, d.forge},
		{"forge-create", 4, d.forgeCreate},
	}
	if d.Simulated {
		all = append(all, operation{"finish", 6, d.finish}, operation{"crash", 3, d.crash})
	}
	if len(d.Victims) > 0 {
		all = append(all,
			operation{"cordon", 2, d.cordon},
			operation{"reregister", 1, d.reregister},
			operation{"damage-topology", 1, d.damageTopology},
			operation{"delete-topology", 1, d.deleteTopology})
	}
	if len(d.Components) > 0 {
		all = append(all, operation{"kill", d.Faults, d.kill}, operation{"stop", 2 * d.Faults, d.stop})
	}
	if d.Compact != nil {
		all = append(all, operation{"compact", 1, d.Compact})
	}
	return all
}
