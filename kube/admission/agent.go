package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentName is the name of the policy that confines agents to their nodes, and of its binding.
const AgentName = "pinfold-agents"

const (
	// agentAccount is the user name of the agent's service account.
	agentAccount = "system:serviceaccount:kube-system:pinfold-agent"
	// tokenNode is the key under which the API server names the node that a token is bound to, by
	// its pod or directly (Kubernetes 1.32).
	tokenNode = "authentication.kubernetes.io/node-name"
	// AgentGroup is the group of agents that run outside the cluster with a client certificate.
	AgentGroup = "pinfold:agents"
	userPrefix = "pinfold:agent:"
)

// AgentUser returns the user name of a node's agent that has a client certificate.
func AgentUser(node string) string { return userPrefix + node }

// AgentPolicy rejects writes of agents about nodes other than their own. The agent's node is taken
// from its token or certificate. The policy fails closed.
func AgentPolicy() *admissionv1.ValidatingAdmissionPolicy {
	writes := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
	return newPolicy(AgentName,
		admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: matching(admissionv1.AllScopes, writes,
				admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes", "nodes/status"}},
				admissionv1.Rule{APIGroups: []string{"topology.node.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"noderesourcetopologies"}},
				admissionv1.Rule{APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"leases"}},
			),
			MatchConditions: []admissionv1.MatchCondition{{Name: "agents",
				Expression: fmt.Sprintf("request.userInfo.username == %q || %q in request.userInfo.?groups.orValue([])", agentAccount, AgentGroup)}},
			Variables: []admissionv1.Variable{{Name: "node", Expression: fmt.Sprintf(
				`request.userInfo.username == %q ? request.userInfo.extra[?%q][0].orValue("") : `+
					`request.userInfo.username.startsWith(%[3]q) ? request.userInfo.username.substring(%[4]d) : ""`,
				agentAccount, tokenNode, userPrefix, len(userPrefix))}},
			Validations: []admissionv1.Validation{{
				Expression: `variables.node != "" && request.name == variables.node`,
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
