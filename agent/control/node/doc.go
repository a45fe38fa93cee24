// Package node describes a node as the agent's controllers see it: its pods ([Pods]), the settings of
// their cgroups ([View]) and what other programs have changed of them ([Watch]). A [State] is all of
// that at one decision, with the plan that follows from it.
package node
