// Package placement chooses CPUs for one request on one machine, and says how
// good the choice is.
package placement
