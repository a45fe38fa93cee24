//go:build !unix

package cluster

import "syscall"

// ownSession returns nothing: only Unix has sessions.
func ownSession() *syscall.SysProcAttr { return nil }
