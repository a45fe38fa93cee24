//go:build !linux

package sysfs

import "pinfold.dev/pinfold/core/cpuset"

// Affinity returns the empty set: only Linux has a /sys, and tells.
func Affinity() (cpuset.Set, error) { return cpuset.Set{}, nil }
