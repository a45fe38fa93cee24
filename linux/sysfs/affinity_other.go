//go:build !linux

package sysfs

import (
	"errors"

	"pinfold.dev/pinfold/core/cpuset"
)

// Affinity returns the empty set: only Linux has a /sys, and tells.
func Affinity() (cpuset.Set, error) { return cpuset.Set{}, nil }

// AffinityOf returns an error.
func AffinityOf(int) (cpuset.Set, error) { return cpuset.Set{}, errors.ErrUnsupported }
