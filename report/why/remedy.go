package why

// Kind is what made a group, and so where its settings are changed.
type Kind int

// The kinds of groups.
const (
	AnyGroup Kind = iota // of systemd, or made by hand
	NoGroup              // a process that is in the root group
	Run                  // of 'pinfold run'
	Pod                  // a pod, or a container of one
)

// remedies are what to do about a group, in the words of what made it. batch makes a neighbour
// batch work, "" if that is not possible.
type remedies struct{ burst, limit, bind, batch string }

func (k Kind) remedies() remedies {
	switch k {
	case Run:
		return remedies{burst: "run it with --burst 100%", limit: "--limit", bind: "Run it and its neighbours with --cpus N, on CPUs of their own", batch: "run that with --idle"}
	case Pod:
		return remedies{burst: `annotate the pod with pinfold.dev/cpu-burst: '{"policy":"auto"}'`, limit: "limits.cpu",
			bind: `Bind it to CPUs of its own (cpuset-scheduler: "true")`, batch: "make that a batch pod (label pinfold.dev/qos: BE)"}
	case NoGroup:
		return remedies{}
	}
	return remedies{burst: "set cpu.max.burst (cgroup version 1: cpu.cfs_burst_us) to the quota", limit: "CPUQuota= or cpu.max",
		bind: "Give it and its neighbours different CPUs (AllowedCPUs= or cpuset.cpus)", batch: "set CPUWeight=idle or cpu.idle for that"}
}
