package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
)

// Partition is a value of cpuset.cpus.partition.
type Partition string

// The values. The scheduler balances load within a PartitionRoot, and not at all within a
// PartitionIsolated.
const (
	PartitionMember   Partition = "member" // not a partition of its own
	PartitionRoot     Partition = "root"
	PartitionIsolated Partition = "isolated"
)

// PartitionState is what the kernel reports of a group's partition.
type PartitionState struct {
	// Kind is "" if it was not read or the kernel does not have the file.
	Kind Partition
	// Invalid is the kernel's reason why the group is treated as a member nevertheless, or "".
	Invalid string
}

// Is reports whether the group is a partition, be it valid or not.
func (p PartitionState) Is() bool { return p.Kind != "" && p.Kind != PartitionMember }

// unexplained is PartitionState.Invalid if the kernel gives no reason.
const unexplained = "the kernel gives no reason"

// parsePartition parses cpuset.cpus.partition: a kind, and possibly "invalid (REASON)".
func parsePartition(text string) (PartitionState, error) {
	kind, rest, found := strings.Cut(text, " ")
	p := PartitionState{Kind: Partition(kind)}
	if !slices.Contains([]Partition{PartitionMember, PartitionRoot, PartitionIsolated}, p.Kind) {
		return PartitionState{}, fmt.Errorf("%q is not the state of a partition", text)
	}
	if found {
		reason, ok := strings.CutPrefix(rest, "invalid")
		if !ok {
			return PartitionState{}, fmt.Errorf("%q is not the state of a partition", text)
		}
		if p.Invalid = strings.Trim(reason, " ()"); p.Invalid == "" {
			p.Invalid = unexplained
		}
	}
	return p, nil
}

// CheckPartitions returns an error if containers cannot be partitions: the groups above them are
// none. It returns nil if there is no group to check.
func (fs *FS) CheckPartitions() error {
	if fs.layout.CPUSet == V1 {
		return errors.New("version 1 of control groups has no partitions: boot with version 2 (systemd.unified_cgroup_hierarchy=1)")
	}
	groups, err := fs.Children(CPUSet, "/")
	if err != nil {
		return err
	}
	for _, group := range groups {
		if s, err := fs.ReadParts(group, Parts{CPUs: true, Partition: true}); err == nil && s.NoPartition {
			return CPUSetExclusive.missing()
		}
	}
	return nil
}

func readPartition(fs *FS, group string, s *Settings) (err error) {
	if fs.layout.CPUSet != V2 {
		s.NoPartition = true
		return nil
	}
	s.NoPartition, err = lacks(readTo(&s.Exclusive, fs, group, CPUSetExclusive, cpuset.Parse))
	if err == nil && !s.NoPartition {
		err = readTo(&s.Partition, fs, group, CPUSetPartition, parsePartition)
	}
	return err
}

// keepsPartition reports whether the group remains the partition that it is.
func (n *node) keepsPartition() bool {
	now, to := n.Present, n.Target()
	return now.Partition.Invalid == "" && to.Partition.Kind == now.Partition.Kind && to.CPUs == now.CPUs && to.Exclusive == now.Exclusive
}

// endPartitions plans what must precede changes of CPUs: groups that do not remain the partition
// that they are become members, and groups give up exclusive CPUs, children before parents.
func (t *tree) endPartitions() (writes []Write) {
	for _, n := range slices.Backward(t.nodes) {
		if n.Wanted.Partition != nil && n.Present.Partition.Is() && !n.keepsPartition() {
			writes = append(writes, Write{Path: n.Path, File: CPUSetPartition, Value: string(PartitionMember)})
		}
	}
	for _, n := range slices.Backward(t.nodes) {
		if now, to := n.Present.Exclusive, n.Target().Exclusive; !now.IsSubsetOf(to) {
			writes = append(writes, Write{Path: n.Path, File: CPUSetExclusive, Value: now.Intersection(to).String()})
		}
	}
	return writes
}

// makePartitions plans what must follow changes of CPUs: groups get exclusive CPUs, parents before
// children, and become partitions. Since Linux 6.7 that is possible below members, if all of these
// have the CPUs as exclusive ones. The kernel accepts the write also if the partition is not valid,
// and says why in the file: a [PartitionError].
func (t *tree) makePartitions() (writes []Write) {
	for _, n := range t.nodes {
		if now, to := n.Present.Exclusive, n.Target().Exclusive; !to.IsSubsetOf(now) {
			writes = append(writes, Write{Path: n.Path, File: CPUSetExclusive, Value: to.String()})
		}
	}
	for _, n := range t.nodes {
		if to := n.Wanted.Partition; to != nil && *to != PartitionMember && !n.keepsPartition() {
			writes = append(writes, Write{Path: n.Path, File: CPUSetPartition, Value: string(*to)})
		}
	}
	return writes
}

// givenAway returns the CPUs of a group that a partition below it may have.
func givenAway(fs *FS, group string) cpuset.Set {
	s, err := fs.ReadParts(group, Parts{Partition: true})
	if err != nil || s.Partition.Is() {
		return cpuset.Set{}
	}
	return s.Exclusive
}

// PartitionError reports that a group did not become a valid partition.
type PartitionError struct {
	Path   string
	Wanted Partition
	Found  PartitionState
}

func (e *PartitionError) Error() string {
	if e.Found.Invalid != "" {
		return fmt.Sprintf("%s of %s is \"%s invalid\": %s", CPUSetPartition, e.Path, e.Found.Kind, e.Found.Invalid)
	}
	return fmt.Sprintf("%s of %s reads %q after %q was written", CPUSetPartition, e.Path, e.Found.Kind, e.Wanted)
}
