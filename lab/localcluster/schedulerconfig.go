package localcluster

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/scheduler"
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
// server and the key that signs allocations. The leader election is left as it is, with
// kube-scheduler's default lease of 15 s, renewed within 10 s: with a shorter one a scheduler ends on
// a busy machine. Its price is that the next scheduler waits that long after a kill -9. One that is
// stopped releases its lease.
func schedulerConfig(given []byte, kubeconfig, signingKey string) ([]byte, error) {
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
	if err := setSigningKey(config, signingKey); err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	return yaml.Marshal(config)
}

// setSigningKey sets the key in the arguments of Pinfold's plugin, in all profiles that have the
// plugin and no key. The agent of a real node rejects allocations that another key signed.
func setSigningKey(config map[string]any, path string) error {
	profiles, found, err := unstructured.NestedSlice(config, "profiles")
	if !found || err != nil {
		return err
	}
	isPinfold := func(one any) bool {
		plugin, ok := one.(map[string]any)
		return ok && plugin["name"] == scheduler.Name
	}
	for _, profile := range profiles {
		fields, ok := profile.(map[string]any)
		if !ok {
			return fmt.Errorf("a profile is a %T", profile)
		}
		all, _, err := unstructured.NestedSlice(fields, "pluginConfig")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, isPinfold) && enables(fields, isPinfold) {
			all = append(all, map[string]any{"name": scheduler.Name})
		}
		for _, one := range all {
			if !isPinfold(one) {
				continue
			}
			plugin := one.(map[string]any)
			args, ok := plugin["args"].(map[string]any)
			if !ok {
				args = map[string]any{}
				plugin["args"] = args
			}
			setDefault(args, "signingKey", path)
		}
		if len(all) > 0 {
			fields["pluginConfig"] = all
		}
	}
	config["profiles"] = profiles
	return nil
}

// enables reports whether a profile enables a plugin at any extension point.
func enables(profile map[string]any, plugin func(any) bool) bool {
	points, _, _ := unstructured.NestedMap(profile, "plugins") // kube-scheduler reports errors
	for name := range points {
		enabled, _, _ := unstructured.NestedSlice(points, name, "enabled")
		if slices.ContainsFunc(enabled, plugin) {
			return true
		}
	}
	return false
}

func setDefault(values map[string]any, key string, value any) {
	if _, ok := values[key]; !ok {
		values[key] = value
	}
}
