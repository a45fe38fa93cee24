// Package doctor checks a node for everything that the agent needs, and says about each
// thing what it is and what to do where it is not as it should be.
//
// It only looks: at files below the root of the host, and at what the API server and
// the kubelet say where they can be asked. Nothing is changed, and no command is run.
//
// A check has one of four outcomes. A problem takes away something that Pinfold is
// there for; a note is about something that works otherwise than one may expect, or
// that an older kernel does not have; skipped says what would have to be known.
package doctor
