// Command pinfold-scheduler is kube-scheduler with the Pinfold plugin. It accepts all flags and
// configuration of kube-scheduler. Without --config it uses [scheduler.DefaultConfiguration] and
// replaces the cluster's default scheduler.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the build's version as a metric
)

func main() {
	os.Exit(cli.Run(newCommand()))
}
