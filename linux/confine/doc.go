// Package confine runs one command in a cgroup of its own with CPU settings, and returns what the
// kernel counted there.
//
//	status, ok := confine.Helper(os.Args[1:])   // first thing in main
//	result, err := confine.Run(ctx, confine.Spec{...})
//
// A program that uses this package must call [Helper] first thing in main, because [Run] starts the
// same program again as a helper process.
//
// # Processes
//
//	run ──┬── gate ──exec──> the command, its children, theirs ...   (in the group)
//	      └── watcher                                                (not in it)
//
// The run creates the group with its settings and starts this program again as the gate. The gate
// moves itself to the group and then executes the command in its place. The command is therefore in
// the group from its first instruction, on both cgroup versions. It remains in the run's process
// group and session, so terminal keys and job control work as usual. The gate reports over a pipe
// when it executes the command, or why it cannot.
//
// The watcher is also this program, in a session of its own. It holds the read end of a pipe from
// the run. If the pipe closes without a message, the run was killed. The watcher then kills all
// processes in the group and removes it, because no command may continue with unsupervised limits.
//
// # Groups
//
// The group is named pinfold-run-PID-RANDOM and placed where [cgrouptree.FindParents] says. The
// processes are in the group "command" below it. So a nested run finds a group without processes
// above itself, and on version 2 the controllers cannot be taken away. If this process is alone in
// the only usable group, it moves to pinfold-self-PID-RANDOM for the duration.
//
// Run and watcher hold a lock (flock) on the group's directory. If the lock can be acquired, run
// and watcher were both killed: the next run in the same place ends the processes in that group and
// removes it. Creating a group, choosing CPUs and this cleanup happen under a second lock, so that
// runs started at the same time see each other's CPUs. That lock is on the group pinfold-lock next
// to them, which exists for that time only. Anyone who can open a directory can lock it, so both
// directories have mode 0711.
package confine
