// Package registry serves the container images of a local cluster on loopback, as an OCI registry
// from which any container runtime can pull.
//
//	handler, err := registry.New(images.All(), dir, out)
//
// An image has one layer: the static executable, the directories that it or a volume needs, and
// /etc/passwd and /etc/group. Layer, configuration and manifest depend on nothing else, so the same
// executable has the same digest at every start. Layers are not compressed, because they are
// transferred through memory.
//
// The registry is filled before it serves, and is read-only. It identifies a repository by path
// only: docker.io/library/nginx and example.com/library/nginx are the same.
package registry
