// Package confine runs one command in a control group of its own, with CPU settings,
// and says what the kernel counted there.
//
// # Processes
//
//	run ──┬── gate ──exec──> the command, its children, theirs ...   (in the group)
//	      └── watcher                                                (not in it)
//
// The run makes the group with its settings, and then starts this program once more as
// the gate. The gate moves itself to the group and executes the command in its own
// place: the command is there from its first instruction on, on either version of
// control groups. It stays in the run's process group and session, so the terminal's
// keys and job control work as without us. The gate says over a pipe when it executes,
// or why it cannot.
//
// The watcher is this program, too, in a session of its own. It holds the end of a
// pipe from the run. When that closes without a word the run was killed, and the
// watcher kills what is in the group and removes it: a command whose limits nobody
// looks after does not go on.
//
// A program that uses this package calls [Helper] first thing in main.
//
// # Groups
//
// The group is pinfold-run-PID-RANDOM, where [cgroup.FS.Home] says. The processes are
// in the group "command" below it: so a run within a run finds a group without
// processes above itself, and on version 2 nobody can take the controllers away. Where
// this process is alone in the only group that may be used, it steps aside to
// pinfold-self-PID-RANDOM for as long as it takes.
//
// Run and watcher hold a lock (flock) on the group's directory. A group whose lock
// can be had is one whose run and watcher were both killed: the next run in the same
// place ends what is in it and removes it. Making, choosing CPUs and that cleaning happen
// under another lock, so that runs started together see each other's CPUs: on the group
// pinfold-lock beside them, which is there for that time only. Whoever can open a directory
// can lock it, so both have the mode 0711.
package confine
