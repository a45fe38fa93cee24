package api

// DefaultMinSharedCPUs is how many CPUs of every node stay shared at least, where neither the
// scheduler's minSharedCPUs nor the agent's --min-shared-cpus says so: both must be the same.
const DefaultMinSharedCPUs = 1
