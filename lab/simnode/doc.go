// Package simnode makes simulated nodes: objects in a real API server that
// describe machines which do not exist. KWOK plays the kubelet of each, so the
// node becomes ready and the pods bound to it run, as far as anybody can tell
// from the API; and each has the NodeResourceTopology that Pinfold's agent would
// publish for such a machine.
package simnode
