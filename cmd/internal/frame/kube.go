package frame

import (
	"fmt"
	"os"
	"strings"

	"pinfold.dev/pinfold/kube/api"
)

// KubeconfigError is an error about a kubeconfig without the words of its parser.
func KubeconfigError(err error) error {
	file, text, ok := strings.Cut(strings.TrimPrefix(err.Error(), "error loading config file "), ": ")
	if ok && (strings.Contains(text, "yaml: ") || strings.Contains(text, "json")) {
		return fmt.Errorf("read the kubeconfig: %s is not a kubeconfig, or is damaged", file)
	}
	return fmt.Errorf("read the kubeconfig: %w", err)
}

// AllocationKeys reads the file of --allocation-keys. Without a file it returns nil: every
// allocation is accepted.
func AllocationKeys(file string) (*api.Keys, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // accept every allocation
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--allocation-keys: %w", err)
	}
	keys, err := api.ParsePublicKeys(text)
	if err != nil {
		return nil, fmt.Errorf("--allocation-keys %s: %w", file, err)
	}
	return api.NewKeys(keys...), nil
}
