// Package registry serves the container images of a local cluster on loopback, as
// an OCI registry from which a container runtime pulls as from any other.
//
// An image has one layer: the static executable, the directories that it or a
// volume wants, and /etc/passwd and /etc/group. Layer, configuration and manifest
// depend on nothing but that, so the same executable has the same digest at every
// start. Layers are not compressed: they travel through memory.
//
// The registry is filled before it serves, and serves reads only. It knows a
// repository by its path alone: docker.io/library/nginx and
// example.com/library/nginx are the same here.
package registry
