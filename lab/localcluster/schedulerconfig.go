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

// election is how the scheduler is elected unless its configuration says otherwise. There
// is one, and perhaps another one that a user has started: one of them decides. After a
// kill -9 the next one waits for as long as the lease lasts, 15 s by default. The lease is
// shorter here, and long enough for a machine on which everything takes seconds.
func election() map[string]any {
	return map[string]any{"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}
}

// schedulerConfig fills in a KubeSchedulerConfiguration how to reach this
// cluster's API server, by which key allocations are signed, and how to be elected.
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

// setSigningKey sets the key in the arguments of Pinfold's plugin in all profiles that have
// the plugin and name no key: the agent of a real node believes no other allocations.
func setSigningKey(config map[string]any, path string) error {
	profiles, _, err := unstructured.NestedSlice(config, "profiles")
	if err != nil {
		return err
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
		if named := func(one any) bool {
			plugin, ok := one.(map[string]any)
			return ok && plugin["name"] == scheduler.Name
		}; !slices.ContainsFunc(all, named) && enables(fields, named) {
			all = append(all, map[string]any{"name": scheduler.Name})
		}
		for _, one := range all {
			plugin, ok := one.(map[string]any)
			if !ok || plugin["name"] != scheduler.Name {
				continue
			}
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
	if len(profiles) > 0 {
		config["profiles"] = profiles
	}
	return nil
}

// setElection sets the three durations of an election, which depend on each other, where
// none is given.
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

// enables reports whether a profile enables such a plugin at any extension point.
func enables(profile map[string]any, plugin func(any) bool) bool {
	points, _, _ := unstructured.NestedMap(profile, "plugins") // kube-scheduler says what is wrong with it
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
