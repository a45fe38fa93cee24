// Package inside contains the tests that run within the virtual machines of test/vm: tests of
// cgroup version 2 files and of their effect on real tasks, on a machine with several packages and
// NUMA nodes. Elsewhere they skip.
package inside
