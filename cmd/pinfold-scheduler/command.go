package main

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/cmd/internal/version"
	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/kube/scheduler/command"
)

func newCommand() *cobra.Command {
	cmd := command.New()
	cmd.Use = "pinfold-scheduler"
	cmd.Short = "kube-scheduler with the Pinfold plugin"
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		sayVersion(cmd)
		return useDefaultConfiguration(cmd)
	}
	return cmd
}

// sayVersion prints Pinfold's version where --version asks for versions. Kubernetes's follows:
// kube-scheduler prints it and ends.
func sayVersion(cmd *cobra.Command) {
	if asked := cmd.Flags().Lookup("version"); asked.Changed && asked.Value.String() != "false" {
		fmt.Fprintln(cmd.OutOrStdout(), version.Of(cmd.Name()))
	}
}

// useDefaultConfiguration sets --config where it is not given. kube-scheduler takes
// plugins from a file only; a pipe does as well, and needs no place to write to.
func useDefaultConfiguration(cmd *cobra.Command) error {
	flags := cmd.Flags()
	if flags.Changed("config") {
		return nil
	}
	// With a file kube-scheduler reads the kubeconfig's path from there only.
	kubeconfig, err := flags.GetString("kubeconfig")
	if err != nil {
		return fmt.Errorf("read --kubeconfig: %w", err)
	}
	text, err := configuration(kubeconfig)
	if err != nil {
		return err
	}
	path, err := pipe(text)
	if err != nil {
		return fmt.Errorf("hand over the default configuration: %w", err)
	}
	return flags.Set("config", path)
}

// configuration is the default one for the cluster that kubeconfig names; "" is the
// cluster in which the process runs.
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

// pipe returns a path at which text can be read once while the process lives. The
// text is far below the 64 KiB that Linux keeps of a pipe, so writing does not wait
// for the reader. Plain descriptors are used because nothing closes them: an
// os.File would be when it is no longer referred to.
func pipe(text []byte) (path string, err error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return "", err
	}
	if _, err := syscall.Write(ends[1], text); err != nil {
		return "", err
	}
	if err := syscall.Close(ends[1]); err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/self/fd/%d", ends[0]), nil
}
