package report

import "pinfold.dev/pinfold/core/blame"

// Behind returns what a thread of a group waited behind. name names other groups and processes.
func Behind(by blame.Occupant, own blame.Group, name func(blame.Occupant) string) string {
	switch {
	case by.Process < 0:
		return "something that was not seen"
	case by.Process == 0:
		return "an idle CPU that had to wake up"
	case by.Group == own:
		return "its own threads"
	}
	return name(by)
}
