// Package fleet says what to do about the CPU limits of all workloads of a cluster, from the counters in
// its Prometheus.
//
// It asks for a batch of containers at a time, so that what it holds does not grow with their number.
// Containers of the same name in pods of one workload are judged together.
package fleet
