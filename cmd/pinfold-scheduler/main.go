// Command pinfold-scheduler is kube-scheduler with the Pinfold plugin. It accepts all flags and
// configuration of kube-scheduler. Without --config it uses [scheduler.DefaultConfiguration] and
// replaces the cluster's default scheduler. Without --emulated-version it runs as the minor version
// of its API server.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the build's version as a metric
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/kube/scheduler/command"
)

func main() {
	os.Exit(cli.Run(newCommand()))
}

func newCommand() *cobra.Command {
	cmd := command.New(frame.Version().Version, command.Settle)
	cmd.Use = "pinfold-scheduler [flags]"
	cmd.Short = "Schedule pods with kube-scheduler and the Pinfold plugin"
	cmd.Long = `Schedule pods as kube-scheduler does, with the Pinfold plugin. All flags and
configuration are kube-scheduler's. Without --config the built-in configuration
is used, which replaces the cluster's default scheduler.`
	cmd.Example = `  pinfold-scheduler --kubeconfig scheduler.conf
  pinfold-scheduler --config scheduler.yaml`
	cmd.AddCommand(frame.NewVersion(cmd.Name()))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		printVersion(cmd)
		return useDefaultConfiguration(cmd)
	}
	// kube-scheduler's flags do not say what their values are. Names of files are the default.
	frame.CompleteWords(cmd, "logging-format", "text", "json")
	frame.CompleteWords(cmd, "tls-min-version", cliflag.TLSPossibleVersions()...)
	frame.CompleteWords(cmd, "tls-cipher-suites", cliflag.TLSCipherPossibleValues()...)
	frame.CompleteExtensions(cmd, "config", "yaml", "yml", "json")
	return cmd
}

// printVersion prints Pinfold's version if --version is set. kube-scheduler then prints that of
// Kubernetes and exits.
func printVersion(cmd *cobra.Command) {
	if flag := cmd.Flags().Lookup("version"); flag.Changed && flag.Value.String() != "false" {
		fmt.Fprintln(cmd.OutOrStdout(), frame.VersionLine(cmd.Name()))
	}
}

// useDefaultConfiguration sets --config if it is not set. kube-scheduler reads the configuration of
// plugins from a file only.
func useDefaultConfiguration(cmd *cobra.Command) error {
	flags := cmd.Flags()
	if flags.Changed("config") {
		return nil
	}
	// With --config, kube-scheduler ignores --kubeconfig.
	kubeconfig, err := flags.GetString("kubeconfig")
	if err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}
	text, err := configuration(kubeconfig)
	if err != nil {
		return err
	}
	path, err := command.MemoryFile(text)
	if err != nil {
		return fmt.Errorf("pass the default configuration: %w", err)
	}
	return flags.Set("config", path)
}

// configuration returns the default configuration for the cluster of a kubeconfig file, or, for "",
// for the cluster in which the process runs.
func configuration(kubeconfig string) ([]byte, error) {
	if kubeconfig == "" {
		return []byte(scheduler.DefaultConfiguration), nil
	}
	var config map[string]any
	if err := yaml.Unmarshal([]byte(scheduler.DefaultConfiguration), &config); err != nil {
		return nil, fmt.Errorf("read the default configuration: %w", err)
	}
	if err := unstructured.SetNestedField(config, kubeconfig, "clientConnection", "kubeconfig"); err != nil {
		return nil, fmt.Errorf("set the kubeconfig: %w", err)
	}
	return yaml.Marshal(config)
}
