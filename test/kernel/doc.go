// Package kernel compares models of core with the running kernel.
package kernel
