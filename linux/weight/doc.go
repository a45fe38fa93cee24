// Package weight gives control groups the largest weight for the time of a recording, so that they
// get CPUs before their neighbours, and then puts back what they had.
//
//	status, ok := weight.Helper(os.Args[1:])    // first thing in main
//	raised, err := weight.Raise(fs, groups, os.Stderr)
//	held := raised.Keep()                       // again and again
//	err = raised.Restore()
//
// A group competes with its siblings, and each group above it with the siblings of that: a container
// with the other containers of its pod, the pod with the pods of its tier, the tier with other pods,
// and all pods with the services of the system. So all of them are raised, up to the root.
//
// # Putting back
//
// The weights from before are in a file, below /run, which is locked as long as they are raised. A
// helper process, in a session of its own, puts them back when its standard input ends, which is
// also so when this process is killed. If the helper is killed, too, the next call of [Raise] or
// [Clean] does it. Only one process of a machine can raise weights at a time: those of two recordings would mix.
//
// # Other writers
//
// The kubelet writes the weights of its tiers each minute (qos_container_manager_linux.go of
// Kubernetes 1.37), and systemd those of its units when it reloads: the same as before. [Raised.Keep]
// therefore raises a group again that has its weight from before. Any other weight is somebody's
// decision, and stays.
package weight
