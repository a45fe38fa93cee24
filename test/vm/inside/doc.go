// Package inside has the tests that run within the virtual machines of test/vm: of
// the files of version 2 of control groups and of what they do to real tasks, on
// a machine of several packages and NUMA nodes. Elsewhere they skip.
package inside
