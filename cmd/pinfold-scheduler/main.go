// Command pinfold-scheduler is kube-scheduler with the Pinfold plugin: it takes all
// of kube-scheduler's flags and configuration. Without --config it runs with
// [scheduler.DefaultConfiguration] and takes the place of the cluster's default
// scheduler.
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
