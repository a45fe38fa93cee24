// Command fleet measures what the agents of a large cluster ask of its API server:
//
//	sudo go run ./bench/fleet -nodes 5000
//
// It runs the agents' own code, thousands of agents in one process. Each has a token of its own, a
// connection to the API server, and the rights of the chart's role; the admission policies are
// installed. All of them share the files of one machine of 104 CPUs, on which no pods run, and one
// program that answers as their kubelets. The API server and etcd are processes of a local cluster;
// its other components are stopped.
//
// Output is for benchstat:
//
//	BenchmarkFleet/nodes=5000/phase=start   1  ... requests/node  ... sent-B/node  ... got-B/node  ... apiserver-cpu-ms/node  ... etcd-cpu-ms/node
//	BenchmarkFleet/nodes=5000/phase=steady  1  ... requests/s  ... sent-B/s  ... got-B/s  ... apiserver-cpu-ms/s  ... etcd-cpu-ms/s  ... apiserver-MiB
//
// The phase start lasts from the first agent until each has renewed its lease and published its
// topology. The phase steady begins a while later (-settle) and lasts for a window (-window).
// Requests are counted where the agents send them; a table of them goes to standard error. Bytes are
// those of the connections, with TLS. What is missing is what pods, kubelets and Prometheus add: the
// events of the watch of each node's pods, the reviews of the agent's token, which each kubelet asks
// the API server for, and those of Prometheus's token, which each agent asks for.
package main
