// Package examples contains example manifests.
//
// Most are from the documentation on topology-aware CPU scheduling of Alibaba Cloud's Container
// Service for Kubernetes (ACK), unchanged. They are requirements of Pinfold: manifests that run
// there must run here unchanged. nginx selects nodes with the label policy=intel7.
//
//	cal-pi.yaml          a pod of 4 CPUs that computes pi
//	go-demo.yaml         a Deployment of 4 replicas, request 1 CPU, limit 4
//	service.yaml         a Service for nginx
//	configmap.yaml       its configuration
//	nginx-baseline.yaml  nginx without placement: its annotations are null
//	nginx.yaml           nginx with placement
//
// One is for the experiment in docs/bandwidth.md, which repeats that of ACK's documentation on CPU
// Burst with the same server:
//
//	burst.yaml           seven pods of Apache httpd: without a limit, and with a limit of a
//	                     tenth of a CPU and different ways to burst
package examples

import "embed"

// Files are the manifests.
//
//go:embed *.yaml
var Files embed.FS
