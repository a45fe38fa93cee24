// Package admission makes the policy by which the API server keeps CPUs with the
// pods that were given them.
//
// What a bound pod has is what its allocation says, as long as the pod asks; and of
// two pods that name one CPU, the one that was bound first has it. So whoever may
// edit an older pod could take the CPUs of a younger one: by writing them into the
// allocation, or by taking the asking words away, which gives the pod's CPUs back,
// and writing them again when somebody else has those CPUs. And a pod whose limits are
// resized in place has an allocation that does not match them any more, which costs it
// its CPUs. The policy refuses all of that:
//
//   - a new pod that has an allocation: with a node in its spec it would take CPUs past
//     the scheduler;
//   - an update of a pod that writes, changes or removes its allocation. The
//     scheduler does not update pods: it sends a Binding, to the subresource
//     pods/binding, which the policy does not match;
//   - an update by which a bound pod begins to ask;
//   - a resize that changes an amount of CPU of a bound pod that asks and has an
//     allocation: of one of its containers, or of the pod as a whole. Memory is resized
//     freely, and so are pods that do not ask.
//
// It matches pods/status too, because an update of a pod's status may change its
// annotations, and pods/resize, where alone an update may change resources
// (k8s.io/kubernetes pkg/registry/core/pod/strategy.go, 1.37). The other subresources
// can do neither.
//
// A second policy ([AgentPolicy]) keeps every node's agent to its node: RBAC gives the
// agents' service account the right to write all Node statuses, topology objects and
// leases, and whoever takes over one node would have the token to do so.
//
// From the first, nobody is exempt. Namespaces with the label of [UnprotectedLabel] are: that is the
// way to repair by hand.
package admission
