// Package admission defines the admission policies that protect CPU allocations from being changed
// by users, and that make exclusive CPUs requests. [Install] installs the policies in a cluster;
// [Policy] and [Binding] return the main objects.
//
//	err := admission.Install(ctx, client)
//
// # Protection of allocations
//
// The allocation annotation of a bound pod determines its CPUs while the pod asks for CPUs. If two
// pods name the same CPU, the pod that was bound first has it. Without the policy, anyone who may
// edit an older pod could take the CPUs of a younger one: by writing those CPUs into the
// allocation, or by removing the requesting annotations, which releases the pod's CPUs, and
// restoring them when another pod has the CPUs. A pod whose limits are resized in place would lose
// its CPUs, because its allocation no longer matches. The policy rejects:
//
//   - a new pod with an allocation: with a node in its spec it would take CPUs without the
//     scheduler;
//   - an update of a pod that adds, changes or removes its allocation. The scheduler is not
//     affected: it sends a Binding to the subresource pods/binding, which the policy does not
//     match;
//   - an update by which a bound pod starts to ask for CPUs;
//   - a resize that changes a CPU amount, of a container or of the pod, if the pod is bound, asks
//     for CPUs and has an allocation. Memory can be resized, and so can pods that do not ask for
//     CPUs.
//
// The policy also matches pods/status, because a status update may change annotations, and
// pods/resize, the only way to update resources (k8s.io/kubernetes
// pkg/registry/core/pod/strategy.go, 1.37). The other subresources can do neither.
//
// Nobody is exempt from this policy. Namespaces with the label [UnprotectedLabel] are exempt, for
// manual repair.
//
// # Requests
//
// Exclusive CPUs are taken by limit. Autoscalers and ResourceQuotas count requests, and so do
// agents that allocate, whose pods may have [AnyScheduler]. [Requests] raises the request of each
// container that gets exclusive CPUs to its limit when its pod is created. Mutations come after a
// LimitRange's defaults and before quotas are checked. A webhook may change the pod afterwards, so
// the policy is reinvoked.
//
// Namespaces with the label [KeepRequestsLabel] are exempt. [RequestsWarning] takes its place where
// the API server has no MutatingAdmissionPolicies.
//
// # Other policies
//
// [AgentPolicy] confines each node's agent to its own node. RBAC alone allows the agents' service
// account to write all Node statuses, topology objects and leases, so a compromised node would hold
// a token for all nodes.
//
// [Misplaced] warns of annotations that are not on pods.
//
// [Fence] rejects Bindings from a scheduler that is no longer the leader.
package admission
