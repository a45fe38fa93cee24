//nolint:revive // the interface of package control says what each method does
package groups

import "pinfold.dev/pinfold/core/nodeplan"

// Idle is a controller that does nothing. Controllers embed it for what does not concern them.
type Idle struct{}

func (Idle) Prepare(*Round) (read []string) { return nil }

func (Idle) Input(*Round, *nodeplan.State) {}

func (Idle) Decide(*Round, *Writes) {}

func (Idle) Restore(*Round, *Writes) {}

func (Idle) Applied(*Round, *Outcome) {}

func (Idle) Notices(*Round, *Notices) {}

func (Idle) Tick(*Round, *Tick, *Ticked) {}
