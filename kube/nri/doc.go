// Package nri lets a [Handler] have its say when the container runtime creates,
// starts, updates and stops containers, by the Node Resource Interface
// (github.com/containerd/nri) of containerd and CRI-O.
package nri
