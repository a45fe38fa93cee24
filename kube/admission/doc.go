// Package admission defines the admission policies that make exclusive CPUs requests, and that confine
// each agent to its node. [Install] installs the policies in a cluster.
//
//	err := admission.Install(ctx, client)
//
// # Asking
//
// The scheduler has chosen the node of a pod for what the pod asked then, and the policy [Requests] has
// raised its requests, which quotas count. So [Policy] rejects an update by which a bound pod starts to
// ask for CPUs. It also matches pods/status and pods/resize, because these may change annotations.
// Namespaces with the label [UnprotectedLabel] are exempt, for manual repair.
//
// # Requests
//
// Exclusive CPUs are taken by limit. Autoscalers and ResourceQuotas count requests, and so do all
// schedulers but Pinfold's. [Requests] raises the request of each
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
package admission
