// Package nri connects a [Handler] to the container runtime, so that it can set CPUs, quota and
// period when containers are created, started, updated and stopped. It implements a plugin of the
// Node Resource Interface (github.com/containerd/nri) of containerd and CRI-O.
//
//	nri.Run(ctx, nri.Options{...}, handler)
//
//	runtime <--> session.go, run.go   one connection after the other
//	                  v
//	             plugin.go            the runtime's requests
//	              |      v
//	              |  guard.go         one call of the handler at a time, within the time limit
//	              v      v
//	        tracker.go  Handler       whether another plugin sets the same fields
//
// The package manages the connection itself, because the Start method of NRI's stub waits forever
// if the runtime dies between registration and configuration. It uses the stub to decode requests.
// NRI (0.12) accepts two plugins of the same name and index. If a runtime rejects that, the error
// says so.
package nri
