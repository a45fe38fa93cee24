// Package names tells what can be a name in Kubernetes.
package names

import "regexp"

var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
)

// IsLabel reports whether a text can be the name of a namespace or of a container (a DNS label).
func IsLabel(text string) bool { return label.MatchString(text) }

// IsName reports whether a text can be the name of a pod, of a node and of most other objects (a DNS
// subdomain).
func IsName(text string) bool { return subdomain.MatchString(text) }
