// Package examples holds example manifests. Those in this directory show one annotation each,
// and can be applied together:
//
//	kubectl apply -f deploy/examples
//
// burst.yaml is for the experiment in docs/bandwidth.md, which ACK's documentation on CPU Burst
// made with the same server: seven pods of Apache httpd, without a limit, and with one of a
// tenth of a CPU and different ways to burst.
//
// Those in ack are what the documentation on topology-aware CPU scheduling of Alibaba
// Cloud's Container Service for Kubernetes (ACK) gives its users, as they stand
// there. They are Pinfold's requirements: what runs there unchanged must run here
// unchanged. nginx selects nodes with the label policy=intel7.
//
//	cal-pi.yaml          a pod of 4 CPUs that computes pi
//	go-demo.yaml         a Deployment of 4 replicas, request 1 CPU, limit 4
//	service.yaml         a Service for nginx
//	configmap.yaml       its configuration
//	nginx-baseline.yaml  nginx without placement: its annotations are null
//	nginx.yaml           nginx with placement
package examples

import "embed"

// Files are the manifests.
//
//go:embed *.yaml ack/*.yaml
var Files embed.FS
