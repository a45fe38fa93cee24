// Package pods runs programs of experiments as pods on this machine, a node of a local cluster
// ("pinfold-local up --node").
//
//	node, err := pods.Open(client, groups)
//	pod, err := node.Start(ctx, pods.Spec{Name: "web-1", Image: image, Args: args, Service: service})
//	// pod.Group is the control group of its container, pod.Output what it prints
//	err = pod.Stop()
//
// A pod uses the network of the machine, so a program has the same address as outside of a pod.
// Settings of a service become annotations, labels and resources of its pod. [Node.Start] returns
// when scheduler and agent have put them into force in the kernel.
//
// Images are named after their content. [WriteImages] makes them, for "pinfold-local up --images".
package pods
