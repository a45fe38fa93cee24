package why

import (
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/quantity"
)

// conclude says in one sentence why a container was slow, and in another what to do. advice may be
// "".
func (r *Report) conclude(c *Container, v blame.Verdict) (conclusion, advice string) {
	share := v.Share.Whole()
	switch v.Cause {
	case blame.NotRunnable:
		return "It hardly wanted to run: its threads slept.", "Look at what it waits for: requests, disks, locks or other services."
	case blame.NotDelayed:
		return fmt.Sprintf("It ran nearly always when it wanted to (%s of that time).", share),
			"CPU settings will not make it faster: look at its code, or at what it waits for."
	case blame.ByQuota:
		return fmt.Sprintf("It was throttled for %s of the time in which it wanted to run, and uses %s of its limit of %s on average.", share, v.Usage, c.limit()),
			"Raise the limit; 'pinfold advise' computes by how much from a recording."
	case blame.ByBursts:
		return fmt.Sprintf("It was throttled for %s of the time in which it wanted to run, although it uses only %s of its limit of %s on average.", share, v.Usage, c.limit()),
			`Let it use later what it did not use: annotate the pod with pinfold.dev/cpu-burst: '{"policy":"auto"}'.`
	case blame.ByParallelism:
		return fmt.Sprintf("It was throttled for %s of the time in which it wanted to run: on average %.1f threads want to run at a time, and share a limit of %s.", share, v.Parallel, c.limit()),
			fmt.Sprintf("Run %s (for Go: GOMAXPROCS), or raise the limit.", quantity.Count(int(math.Ceil(float64(c.limit()))), "thread"))
	case blame.ByNeighbours:
		name := r.Waited(v.Neighbour)
		return fmt.Sprintf("It waited behind others for %s of the time in which it wanted to run, most behind %s.", share, name),
			fmt.Sprintf("Bind it to CPUs of its own (cpuset-scheduler: \"true\"), or, if %s is batch work, make that a batch pod (label pinfold.dev/qos: BE).", name)
	case blame.ByOwnThreads:
		return fmt.Sprintf("Its threads waited for each other for %s of the time in which they wanted to run: on average %.1f want to run at a time, and it uses %s.", share,
			v.Parallel, v.Usage), "Run fewer threads (for Go: GOMAXPROCS), or let it use more CPUs."
	case blame.ByMachine:
		return fmt.Sprintf("Interrupts or the hypervisor used its CPUs for %s of the time in which it wanted to run.", share),
			"Look at the machine: interrupts on its CPUs (/proc/interrupts), and steal time, for which a larger or dedicated virtual machine helps."
	}
	return "", ""
}
