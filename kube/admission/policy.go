package admission

import (
	"fmt"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
)

const (
	// Name is the name of the policy and of its binding.
	Name = "pinfold-cpu-allocations"
	// UnprotectedLabel exempts a namespace that has the label with value "true".
	UnprotectedLabel = "pinfold.dev/unprotected"
)

// Messages for users whose request is rejected.
const (
	messageAllocation = "annotation " + api.AllocationAnnotation + " is written by the scheduler alone, when it binds the pod: " +
		"leave it out of new pods and as it is on others; delete a pod to have it placed again"
	messageAsking = "a pod that has a node cannot begin to ask for CPUs (annotations " + api.CPUSetSchedulerAnnotation + " and " +
		api.CPUPolicyAnnotation + "): create a new pod that asks, for instance by its Deployment's template"
	messageResize = "the cpu requests and limits of a pod to which CPUs are allocated (annotation " + api.AllocationAnnotation +
		") cannot be resized in place: delete the pod and create it with the new ones"
)

// Policy protects allocations as described in the package comment. It fails closed: a request is
// rejected if the evaluation of the policy fails.
func Policy() *admissionv1.ValidatingAdmissionPolicy {
	return newPolicy(Name,
		admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: matching(admissionv1.AllScopes, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/status", "pods/resize"}}),
			Variables: []admissionv1.Variable{
				{Name: "before", Expression: "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})"},
				{Name: "bound", Expression: `oldObject != null && oldObject.spec.?nodeName.orValue("") != ""`},
				{Name: "after", Expression: "object.metadata.?annotations.orValue({})"},
				{Name: "asked", Expression: asks("variables.before")},
				{Name: "asks", Expression: asks("variables.after")},
				{Name: "holds", Expression: fmt.Sprintf("variables.bound && %q in variables.before && variables.asked", api.AllocationAnnotation)},
			},
			Validations: []admissionv1.Validation{
				{Expression: fmt.Sprintf("variables.before[?%[1]q] == variables.after[?%[1]q]", api.AllocationAnnotation),
					Message: messageAllocation, Reason: new(metav1.StatusReasonForbidden)},
				{Expression: "!variables.bound || variables.asked || !variables.asks",
					Message: messageAsking, Reason: new(metav1.StatusReasonForbidden)},
				{Expression: "!variables.holds || " + cpus("oldObject.spec") + " == " + cpus("object.spec"),
					Message: messageResize, Reason: new(metav1.StatusReasonForbidden)},
			},
		})
}

// Binding enforces [Policy] in all namespaces without [UnprotectedLabel].
func Binding() *admissionv1.ValidatingAdmissionPolicyBinding {
	return newBinding(Name, withoutLabel(UnprotectedLabel))
}

// asks returns a CEL expression: whether a bound pod with these annotations gets the CPUs of its
// allocation, as in [api.AllocationOf].
func asks(annotations string) string {
	return only(annotations, "true", api.CPUSetSchedulerKeys()) + " && !(" +
		only(annotations, string(api.PolicyNone), api.CPUPolicyKeys()) + ")"
}

// only returns a CEL expression: whether at least one of the keys is set, and all that are set have
// this value.
func only(annotations, value string, keys []string) string {
	return fmt.Sprintf("%s.exists(k, k in %s) && %s", quoted(keys), annotations, all(annotations, value, keys))
}

// all returns a CEL expression: whether all of the keys that are set have this value.
func all(annotations, value string, keys []string) string {
	return fmt.Sprintf("%[1]s.all(k, !(k in %[2]s) || %[2]s[k] == %[3]q)", quoted(keys), annotations, value)
}

// quoted returns a list of strings in CEL.
func quoted(list []string) string {
	texts := make([]string, 0, len(list))
	for _, text := range list {
		texts = append(texts, strconv.Quote(text))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// cpus returns a CEL expression: all amounts of CPU in the spec of a pod.
func cpus(spec string) string {
	return fmt.Sprintf("(%[1]s.?initContainers.orValue([]) + %[1]s.containers).map(c, %[2]s) + [%[3]s]", spec, amounts("c"), amounts(spec))
}

// amounts returns a CEL expression: the CPU request and limit of a container, or of a pod as a
// whole.
func amounts(of string) string {
	return "[" + cpuOf(of, "requests", "") + ", " + cpuOf(of, "limits", "") + "]"
}

// The lease of kube-scheduler's leader election in its default configuration.
const (
	LeaseNamespace = metav1.NamespaceSystem
	LeaseName      = "kube-scheduler"
)

// FenceName returns the name of the policy for a scheduler's lease, and of its binding.
func FenceName(lease string) string { return "pinfold-bindings-" + lease }

// Fence rejects Bindings from a scheduler that is no longer the leader. An annotation of the
// Binding names the scheduler's lease and its holder, and the policy compares it with the lease.
// Bindings without the annotation, or with another lease, are not affected.
func Fence(namespace, lease string) *admissionv1.ValidatingAdmissionPolicy {
	prefix := namespace + "/" + lease + " "
	return newPolicy(FenceName(lease),
		admissionv1.ValidatingAdmissionPolicySpec{
			ParamKind: &admissionv1.ParamKind{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			MatchConstraints: matching(admissionv1.NamespacedScope, []admissionv1.OperationType{admissionv1.Create},
				admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding", "bindings"}}),
			MatchConditions: []admissionv1.MatchCondition{{Name: "names-the-lease", Expression: fmt.Sprintf(
				`object.metadata.?annotations[?%q].orValue("").startsWith(%q)`, api.SchedulerAnnotation, prefix)}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf(`object.metadata.annotations[%q] == %q + params.spec.?holderIdentity.orValue("")`, api.SchedulerAnnotation, prefix),
				Message:    "another scheduler holds the lease " + namespace + "/" + lease, Reason: new(metav1.StatusReasonForbidden),
			}},
		})
}

// FenceBinding enforces [Fence] in all namespaces. While the lease does not exist, there is no
// leader, and nothing is rejected.
func FenceBinding(namespace, lease string) *admissionv1.ValidatingAdmissionPolicyBinding {
	binding := newBinding(FenceName(lease), inNamespaces(metav1.LabelSelector{}))
	binding.Spec.ParamRef = &admissionv1.ParamRef{Namespace: namespace, Name: lease, ParameterNotFoundAction: new(admissionv1.AllowAction)}
	return binding
}

// AgentName is the name of the policy that confines agents to their nodes, and of its binding.
const AgentName = "pinfold-agents"

const (
	// AgentAccount is the default name of the agent's service account.
	AgentAccount = "pinfold-agent"
	// tokenNode is the key under which the API server names the node that a token is bound to, by
	// its pod or directly (Kubernetes 1.32).
	tokenNode = "authentication.kubernetes.io/node-name"
	// AgentGroup is the group of agents that run outside the cluster with a client certificate.
	AgentGroup = "pinfold:agents"
	userPrefix = "pinfold:agent:"
)

// AgentUser returns the user name of a node's agent that has a client certificate.
func AgentUser(node string) string { return userPrefix + node }

// ofNode is a CEL expression: whether a ResourceSlice belongs to the node before and after a request.
const ofNode = `[object, oldObject].all(o, o == null || o.spec.?nodeName.orValue("") == variables.node)`

// isOwn is a CEL expression: whether a device of a ResourceClaim has CPUs of the node.
const isOwn = `r, r.driver == "` + dra.Driver + `" && r.pool == variables.node`

// ofClaim is a CEL expression: whether a ResourceClaim has CPUs of the node, and a request changes
// nothing of its status but what drivers say of devices, or gives back a claim of nothing else.
const ofClaim = `variables.devices.exists(` + isOwn + `) && ` +
	`(oldObject.?status.allocation == object.?status.allocation && oldObject.?status.reservedFor == object.?status.reservedFor || ` +
	`variables.devices.all(` + isOwn + `) && !object.?status.allocation.hasValue() && object.?status.reservedFor.orValue([]).size() == 0)`

// AgentPolicy rejects writes of agents about nodes other than their own. An agent is who has the
// given service account, or a certificate of [AgentGroup]. Its node is taken from its token or
// certificate. The policy fails closed.
func AgentPolicy(namespace, account string) *admissionv1.ValidatingAdmissionPolicy {
	user := "system:serviceaccount:" + namespace + ":" + account
	writes := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
	return newPolicy(AgentName,
		admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: matching(admissionv1.AllScopes, writes,
				admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes", "nodes/status"}},
				admissionv1.Rule{APIGroups: []string{"pinfold.dev"}, APIVersions: []string{"*"}, Resources: []string{"nodetopologies"}},
				admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"leases"}},
				admissionv1.Rule{APIGroups: []string{"resource.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"resourceslices", "resourceclaims/status"}},
			),
			MatchConditions: []admissionv1.MatchCondition{{Name: "agents",
				Expression: fmt.Sprintf("request.userInfo.username == %q || %q in request.userInfo.?groups.orValue([])", user, AgentGroup)}},
			Variables: []admissionv1.Variable{{Name: "node", Expression: fmt.Sprintf(
				`request.userInfo.username == %q ? request.userInfo.extra[?%q][0].orValue("") : `+
					`request.userInfo.username.startsWith(%[3]q) ? request.userInfo.username.substring(%[4]d) : ""`,
				user, tokenNode, userPrefix, len(userPrefix))},
				{Name: "devices", Expression: "oldObject.?status.allocation.devices.results.orValue([])"}},
			Validations: []admissionv1.Validation{{
				Expression: `variables.node != "" && (request.resource.resource == "resourceslices" ? ` + ofNode + ` : ` +
					`request.resource.resource == "resourceclaims" ? ` + ofClaim + ` : request.name == variables.node)`,
				MessageExpression: `variables.node == "" ? "an agent writes about its own node only, and this token or certificate names none: ` +
					`use the token of a pod or one bound to the Node, or a certificate of user ` + userPrefix + `NODE" : ` +
					`"the agent of node " + variables.node + " writes about that node only"`,
				Reason: new(metav1.StatusReasonForbidden),
			}},
		})
}

// AgentBinding enforces [AgentPolicy] everywhere.
func AgentBinding() *admissionv1.ValidatingAdmissionPolicyBinding {
	return newBinding(AgentName, nil)
}
