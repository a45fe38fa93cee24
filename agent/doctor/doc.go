// Package doctor checks that a node meets the agent's requirements. [Examine] returns one result
// per check: what was found and, if it is not as it should be, what to do about it. [WriteText]
// prints the results.
//
//	report := doctor.Examine(ctx, doctor.Defaults())
//
// The checks only read: files below the host's root and, where they are reachable, the API server
// and the kubelet. They change nothing and run no command.
//
// A check has one of four outcomes. OK needs no action. A problem disables a function of Pinfold. A
// note describes something that works differently than expected, or that an older kernel lacks. A
// skipped check states what information was missing.
package doctor
