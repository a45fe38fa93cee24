package report

import "regexp"

// IsLabel reports whether Kubernetes accepts a name for namespaces and containers.
func IsLabel(name string) bool {
	return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`).MatchString(name)
}

// IsName reports whether Kubernetes accepts a name for pods and most other objects.
func IsName(name string) bool {
	return regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`).MatchString(name)
}
