package localcluster

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const schedulerConfigName = "scheduler.yaml"

// plainSchedulerConfig is what the scheduler runs with when the caller has no
// wishes.
const plainSchedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

// The scheduler's own limit on requests, unless its configuration says
// otherwise. The default of 50 a second would be what a benchmark measures.
const (
	schedulerQPS   = 5000
	schedulerBurst = 10000
)

// schedulerConfig fills in a KubeSchedulerConfiguration how to reach this
// cluster's API server.
func schedulerConfig(given []byte, kubeconfig string) ([]byte, error) {
	if len(given) == 0 {
		given = []byte(plainSchedulerConfig)
	}
	var config map[string]any
	if err := yaml.Unmarshal(given, &config); err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	if kind := config["kind"]; kind != "KubeSchedulerConfiguration" {
		return nil, fmt.Errorf("read the scheduler's configuration: kind is %v, not KubeSchedulerConfiguration", kind)
	}
	connection, found, err := unstructured.NestedMap(config, "clientConnection")
	if err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	if !found {
		connection = map[string]any{}
	}
	if connection["kubeconfig"] != nil {
		return nil, errors.New("the scheduler's configuration names a kubeconfig; leave clientConnection.kubeconfig out, " +
			"the local cluster makes one")
	}
	connection["kubeconfig"] = kubeconfig
	setDefault(connection, "qps", schedulerQPS)
	setDefault(connection, "burst", schedulerBurst)
	config["clientConnection"] = connection
	return yaml.Marshal(config)
}

func setDefault(values map[string]any, key string, value any) {
	if _, ok := values[key]; !ok {
		values[key] = value
	}
}
