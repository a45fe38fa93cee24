// Package admission makes the policy by which the API server keeps CPUs with the
// pods that were given them.
//
// What a bound pod has is what its allocation says, as long as the pod asks; and of
// two pods that name one CPU, the one that was bound first has it. So whoever may
// edit an older pod could take the CPUs of a younger one: by writing them into the
// allocation, or by taking the asking words away, which gives the pod's CPUs back,
// and writing them again when somebody else has those CPUs. The policy refuses both:
//
//   - an update of a pod that writes, changes or removes its allocation. The
//     scheduler does not update pods: it sends a Binding, to the subresource
//     pods/binding, which the policy does not match;
//   - an update by which a bound pod begins to ask.
//
// It matches pods/status too, because an update of a pod's status may change its
// annotations (k8s.io/kubernetes pkg/registry/core/pod/strategy.go, 1.37). The other
// subresources cannot.
//
// Nobody is exempt. Namespaces with the label of [UnprotectedLabel] are: that is the
// way to repair by hand.
package admission
