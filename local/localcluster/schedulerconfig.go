package localcluster

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// plainSchedulerConfig is the default of Config.SchedulerConfig.
const plainSchedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

// The default limits of the scheduler's requests per second. With kube-scheduler's default of 50, a
// benchmark would measure that limit.
const (
	schedulerQPS   = 5000
	schedulerBurst = 10000
)

// schedulerConfig completes a KubeSchedulerConfiguration with the connection to this cluster's API
// server. The leader election is left as it is, with
// kube-scheduler's default lease of 15 s, renewed within 10 s: with a shorter one a scheduler ends on
// a busy machine. Its price is that the next scheduler waits that long after a kill -9. One that is
// stopped releases its lease.
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
