// Package examples contains example manifests. The manifests in this directory show one annotation
// each and can be applied together:
//
//	kubectl apply -f deploy/examples
//
// burst.yaml is for an experiment (test/node, TestBurst): seven pods of Apache httpd, one without a
// limit, the others with a limit of a tenth of a CPU and different ways to burst. It repeats, with
// the same server, the experiment in the CPU Burst documentation of Alibaba Cloud's Container
// Service for Kubernetes (ACK).
//
// The manifests in ack are unchanged copies from ACK's documentation on topology-aware CPU
// scheduling. They are requirements of Pinfold: manifests that run there must run here unchanged.
// nginx selects nodes with the label policy=intel7.
//
//	cal-pi.yaml          a pod of 4 CPUs that computes pi
//	go-demo.yaml         a Deployment of 4 replicas, request 1 CPU, limit 4
//	service.yaml         a Service for nginx
//	configmap.yaml       its configuration
//	nginx-baseline.yaml  nginx without placement: its annotations are null
//	nginx.yaml           nginx with placement
package examples

import "embed"

// Files contains the manifests.
//
//go:embed *.yaml ack/*.yaml
var Files embed.FS
