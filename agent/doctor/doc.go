// Package doctor checks that a node meets the agent's requirements. [Examine] returns one result
// per check: what was found and, if something is wrong, what to do about it. [Report.WriteText]
// prints the results.
//
//	report := doctor.Examine(ctx, doctor.Defaults())
//
// It checks what the agent needs before it can start, and what no agent looks at, such as other
// programs. The rest is in the condition that the node's agent has published, which it shows. The
// checks only read: files below the host's root and, if they are reachable, the API server and the
// kubelet. They change nothing and run no command.
//
// A check has one of four outcomes. OK needs no action. A problem disables a function of Pinfold. A
// note describes something that works differently than expected, or that an older kernel lacks. A
// skipped check states what information was missing.
package doctor
