//go:build unix

package cluster

import "syscall"

// ownSession has a process run in a session of its own.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
