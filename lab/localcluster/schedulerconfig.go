package localcluster

import (
	"errors"
	"fmt"
	"maps"
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

// election returns the default durations of the leader election between this cluster's scheduler
// and others that a user starts. After a kill -9, the next scheduler waits until the lease expires.
// The lease is shorter than kube-scheduler's default of 15 s, but long enough for a very busy
// machine.
func election() map[string]any {
	return map[string]any{"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
}

// schedulerConfig completes a KubeSchedulerConfiguration with the connection to this cluster's API
// server, the key that signs allocations, and the leader election.
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
	if err := errors.Join(setSigningKey(config, signingKey), setElection(config)); err != nil {
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

// setElection sets the three durations of the leader election, which depend on each other, unless
// one of them is set.
func setElection(config map[string]any) error {
	given, found, err := unstructured.NestedMap(config, "leaderElection")
	if err != nil {
		return err
	}
	if !found {
		given = map[string]any{}
	}
	for name := range election() {
		if _, ok := given[name]; ok {
			return nil
		}
	}
	maps.Copy(given, election())
	config["leaderElection"] = given
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
