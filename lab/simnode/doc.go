// Package simnode creates simulated nodes: objects in a real API server that describe machines that
// do not exist. [Nodes] builds them from shapes and [Create] creates them. KWOK simulates the
// kubelet of each, so in the API the node becomes ready and its pods run. Each node has the
// NodeResourceTopology that Pinfold's agent would publish for such a machine.
package simnode
