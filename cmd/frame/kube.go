package frame

import (
	"fmt"
	"strings"
)

// KubeconfigError is an error about a kubeconfig without the words of its parser.
func KubeconfigError(err error) error {
	file, text, ok := strings.Cut(strings.TrimPrefix(err.Error(), "error loading config file "), ": ")
	if ok && (strings.Contains(text, "yaml: ") || strings.Contains(text, "json")) {
		return fmt.Errorf("read the kubeconfig: %s is not a kubeconfig, or is damaged", file)
	}
	return fmt.Errorf("read the kubeconfig: %w", err)
}
