// Package priority puts batch work behind everything else in the kernel. It finds out which of the
// mechanisms of package colocation this kernel has ([Lacking]), and carries out the one that is not
// a file of a control group: core scheduling.
//
// # Core scheduling
//
// Hyper-threads of a core slow each other down. With core scheduling (Linux 5.14), threads run at
// the same time on one core only if they have the same cookie; otherwise the kernel leaves one of
// the CPUs idle. All batch threads get one cookie ([Cookies.Give]) and everything else has none, so
// batch work never runs beside online work. Online work that has no cookie shares cores as before.
//
// Children inherit the cookie of the thread that starts them. Processes that join a container later
// (kubectl exec) come from the container runtime and have none, so cookies have to be given again
// from time to time. A process may give itself a new cookie, and may then still not run beside
// online work.
//
// See Documentation/admin-guide/hw-vuln/core-scheduling.rst and kernel/sched/core_sched.c of Linux
// 6.18.
package priority
