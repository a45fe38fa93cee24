// Package bandwidth is the kernel's CFS bandwidth controller as arithmetic: quota,
// period and burst of one control group, and what they make of a demand for CPU time.
package bandwidth
