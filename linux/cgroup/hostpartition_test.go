package cgroup

import (
	"errors"
	"os"
	"slices"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/feature"
)

// testHostPartition makes a container a partition whose parents are members, changes its kind and
// CPUs, and ends it. No group outside a partition may run on its CPUs.
func testHostPartition(t *testing.T, fs *FS, top string) {
	if err := fs.CheckPartitions(); err != nil {
		if unsupported := (*feature.UnsupportedError)(nil); fs.Layout().CPUSet == V2 && !errors.As(err, &unsupported) {
			t.Fatal(err)
		}
		t.Skipf("%v: test/vm runs this test where there are partitions", err)
	}
	online, err := fs.Effective("/")
	if err != nil {
		t.Fatal(err)
	}
	if online.Len() < 3 {
		t.Skip("needs three CPUs")
	}
	cpus := slices.Collect(online.All())
	pod, container, other := top+"/pod", top+"/pod/container", top+"/other"
	makeGroup(t, fs, other)
	outside := sleepIn(t, fs.Dir(CPUSet, other))
	inside := sleepIn(t, fs.Dir(CPUSet, container))
	check := func(step string, own cpuset.Set) {
		t.Helper()
		if got := allowed(t, outside); got != online.Difference(own) {
			t.Errorf("%s: a process outside may run on %s, want %s", step, got, online.Difference(own))
		}
		if got := allowed(t, os.Getpid()); got.Intersects(own) {
			t.Errorf("%s: this process may run on %s, and %s is in a partition", step, got, own)
		}
	}
	partition := func(kind Partition, cpus cpuset.Set) map[string]Wanted {
		return map[string]Wanted{top: {Exclusive: &cpus}, pod: {Exclusive: &cpus}, container: {CPUs: &cpus, Exclusive: &cpus, Partition: &kind}}
	}
	for _, step := range []struct {
		name string
		kind Partition
		cpus cpuset.Set
	}{
		{"one CPU", PartitionRoot, cpuset.Of(cpus[1])},
		{"another one", PartitionRoot, cpuset.Of(cpus[2])},
		{"isolated", PartitionIsolated, cpuset.Of(cpus[2])},
		{"two", PartitionIsolated, cpuset.Of(cpus[1], cpus[2])},
		{"balanced", PartitionRoot, cpuset.Of(cpus[1], cpus[2])},
	} {
		apply(t, fs, partition(step.kind, step.cpus))
		check(step.name, step.cpus)
		if got := allowed(t, inside); got != step.cpus {
			t.Errorf("%s: the process in it may run on %s, want %s", step.name, got, step.cpus)
		}
		// A group above has these CPUs and does not run on them, which is not an error.
		apply(t, fs, map[string]Wanted{pod: {CPUs: &online}})
		apply(t, fs, map[string]Wanted{pod: {CPUs: &cpuset.Set{}}})
	}
	none := cpuset.Set{}
	apply(t, fs, map[string]Wanted{top: {Exclusive: &none}, pod: {Exclusive: &none},
		container: {CPUs: &none, Exclusive: &none, Partition: new(PartitionMember)}})
	check("a member again", none)
	// Without exclusive CPUs above, the kernel accepts the write, and the partition is invalid.
	own := cpuset.Of(cpus[1])
	err = fs.Apply(map[string]Wanted{container: {CPUs: &own, Exclusive: &own, Partition: new(PartitionRoot)}}).Failed[container]
	var invalid *PartitionError
	if !errors.As(err, &invalid) || invalid.Found.Kind != PartitionRoot || invalid.Found.Invalid == "" {
		t.Errorf("without exclusive CPUs above: %v, want a PartitionError with the kernel's reason", err)
	} else {
		t.Log(err)
	}
	check("an invalid one", none)
	apply(t, fs, partition(PartitionRoot, own)) // it is made again
	check("made again", own)
}
