package admission

import (
	"fmt"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
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

// messageAsking is for users whose request is rejected.
const messageAsking = "a pod that has a node cannot begin to ask for CPUs (annotations " + api.CPUSetSchedulerAnnotation + " and " +
	api.CPUPolicyAnnotation + "): create a new pod that asks, for instance by its Deployment's template"

// Policy rejects an update by which a bound pod starts to ask for CPUs, as described in the package
// comment. It fails closed: a request is rejected if the evaluation of the policy fails.
func Policy() *admissionv1.ValidatingAdmissionPolicy {
	return newPolicy(Name,
		admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: matching(admissionv1.AllScopes, []admissionv1.OperationType{admissionv1.Update},
				admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/status", "pods/resize"}}),
			Variables: []admissionv1.Variable{
				{Name: "before", Expression: "oldObject.metadata.?annotations.orValue({})"},
				{Name: "after", Expression: "object.metadata.?annotations.orValue({})"},
			},
			Validations: []admissionv1.Validation{
				{Expression: `oldObject.spec.?nodeName.orValue("") == "" || ` + asks("variables.before") + " || !(" + asks("variables.after") + ")",
					Message: messageAsking, Reason: new(metav1.StatusReasonForbidden)},
			},
		})
}

// Binding enforces [Policy] in all namespaces without [UnprotectedLabel].
func Binding() *admissionv1.ValidatingAdmissionPolicyBinding {
	return newBinding(Name, withoutLabel(UnprotectedLabel))
}

// asks returns a CEL expression: whether a pod with these annotations asks for CPUs, as [api.Asks].
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
