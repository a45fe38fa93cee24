package place

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/terminal"
)

// NewPlace returns the subcommand "place".
func NewPlace() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "place --cpus N (--machine FILE | --sysfs PATH) [flags]\nplace --cpus N --pid PID [flags]",
		Short: "Choose CPUs on a machine",
		Long: `Choose CPUs on a machine.

With --policy static these are N exclusive CPUs for one container: on as few
NUMA nodes as possible, close to each other, with as few split cores and caches
as possible, leaving large free parts whole. With static-burst they are all free
CPUs of the fewest NUMA nodes that have N of them, shared by the containers that
are confined there.

With --pid it chooses among the CPUs that a process of this machine may use now.`,
		Example: `  pinfold place --sysfs /sys --cpus 4
  pinfold place --machine machine.json --free 0-15,52-67 --cpus 8 -o json`,
		Args: frame.NoArguments,
	}
	o := &placeOptions{from: newSourceOptions(cmd, ""), output: frame.OutputFlag(cmd)}
	flags := cmd.Flags()
	frame.Var(flags, &o.CPUs, "cpus", "N", "how many CPUs, 1 or more", frame.ParseCount)
	flags.StringVar(&o.free, "free", "", "the free CPUs as a `CPULIST` such as 0-15,32-47 (default all online CPUs)")
	frame.Var(flags, &o.pid, "pid", "PID", "choose among the CPUs of this machine that the process `PID` may use", frame.ParseCount)
	frame.OneOf(flags, &o.Policy, "policy", "what the CPUs are for", placement.Static, placement.StaticBurst)
	frame.OneOf(flags, &o.FullCores, "full-cores", "whether whole cores are preferred or required; for static only",
		placement.FullCoresPreferred, placement.FullCoresRequired)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(flags); err != nil {
			return err
		}
		return o.answer(cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// placeOptions is a placement as the flags request it.
type placeOptions struct {
	placement.Request
	from      *sourceOptions
	free      string
	freeGiven bool // an empty --free means that no CPU is free
	pid       int  // of the process whose CPUs are free; 0: not given
	output    *frame.Format
}

// check rejects questions that are wrong on every machine.
func (o *placeOptions) check(flags *pflag.FlagSet) error {
	o.freeGiven = flags.Changed("free")
	for _, name := range []string{"machine", "sysfs", "free"} {
		if o.pid != 0 && flags.Changed(name) {
			return frame.Usagef("--pid chooses among the CPUs that a process of this machine may use: leave out --%s", name)
		}
	}
	if o.pid != 0 {
		o.from.sysfs = sysfs.HostRoot
	}
	if err := o.from.check(flags); err != nil {
		return err
	}
	if o.Policy == placement.StaticBurst && flags.Changed("full-cores") {
		return frame.Usagef("--full-cores has no effect with --policy static-burst, which gives no CPUs to one container: leave it out")
	}
	if o.CPUs == 0 {
		return frame.Usagef("--cpus is missing: say how many CPUs to place, 1 or more")
	}
	if _, err := cpuset.ParseTyped(o.free, cpuset.Range(0, cpuset.MaxCPUs-1)); err != nil {
		return frame.Usagef("--free: %w", err)
	}
	return nil
}

func (o *placeOptions) answer(stdin io.Reader, stdout, stderr io.Writer) error {
	m, err := o.from.read(stdin, stderr)
	if err != nil {
		return err
	}
	free := m.Online()
	if o.freeGiven {
		if free, err = freeCPUs(m, o.free); err != nil {
			return fmt.Errorf("--free: %w", err)
		}
	}
	if o.pid != 0 {
		usable, err := sysfs.AffinityOf(o.pid)
		if err != nil {
			return fmt.Errorf("--pid: %w", err)
		}
		free = free.Intersection(usable)
	}
	result, err := placement.NewIndex(m).Place(free, o.Request)
	if err != nil {
		return fmt.Errorf("cannot place: %w", err)
	}
	if *o.output == frame.JSON {
		return frame.PrintJSON(stdout, newAnswer(m, result))
	}
	return o.explain(stdout, m, free, result)
}

// freeCPUs parses a list of online CPUs of the machine.
func freeCPUs(m *topology.Machine, list string) (cpuset.Set, error) {
	free, err := cpuset.ParseTyped(list, m.Online())
	if err != nil {
		return cpuset.Set{}, err
	}
	if extra := free.Difference(m.Online()); !extra.IsEmpty() {
		return cpuset.Set{}, fmt.Errorf("CPUs %s are not online on this machine, which has %s", extra, m.Online())
	}
	return free, nil
}

// answer is a placement as JSON.
type answer struct {
	CPUs       cpuset.Set        `json:"cpus"`
	NUMANodes  []topology.NUMAID `json:"numaNodes"` // ascending; -1 for CPUs without a node
	Packages   int               `json:"packages"`
	LLCs       int               `json:"llcs"`
	SplitCores int               `json:"splitCores"`
	Exact      bool              `json:"exact"` // see placement.Result
}

func newAnswer(m *topology.Machine, r placement.Result) answer {
	return answer{
		CPUs:       r.CPUs,
		NUMANodes:  m.NUMANodesOf(r.CPUs),
		Packages:   r.Quality.Packages,
		LLCs:       r.Quality.LLCs,
		SplitCores: r.Quality.SplitCores,
		Exact:      r.Exact,
	}
}

// explain prints a placement as text: its CPUs, its quality, and a map of the machine.
func (o *placeOptions) explain(w io.Writer, m *topology.Machine, free cpuset.Set, r placement.Result) error {
	a := newAnswer(m, r)
	var nodes []string
	for _, id := range a.NUMANodes {
		name := fmt.Sprint(id)
		if id == topology.NoNUMA {
			name = "none"
		}
		nodes = append(nodes, name)
	}
	purpose := "exclusive CPUs for a container with a limit of"
	if o.Policy == placement.StaticBurst {
		purpose = "shared CPUs for a container that is confined to them, with a limit of"
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "CPUs         %s\n", a.CPUs)
	fmt.Fprintf(b, "policy       %s: %s %d\n", o.Policy, purpose, o.CPUs)
	fmt.Fprintf(b, "NUMA nodes   %s\n", strings.Join(nodes, ", "))
	fmt.Fprintf(b, "packages     %d\n", a.Packages)
	fmt.Fprintf(b, "LLCs         %d\n", a.LLCs)
	fmt.Fprintf(b, "split cores  %d\n", a.SplitCores)
	if o.pid != 0 {
		fmt.Fprintf(b, "bind with    taskset -acp %s %d\n", a.CPUs, o.pid)
	}
	if !r.Exact {
		fmt.Fprintf(b, "note         too many NUMA nodes to prove that no other choice of nodes is nearer\n")
	}
	fmt.Fprintln(b)
	if err := report.Flush(b, "print the result"); err != nil {
		return err
	}
	options := terminal.MapOptions(w, os.Getenv)
	options.Rest = "free"
	options.Owners = []report.Owner{{Name: "chosen", CPUs: r.CPUs, Symbol: '■'}}
	if taken := m.Online().Difference(free); !taken.IsEmpty() {
		options.Owners = append(options.Owners, report.Owner{Name: "not free", CPUs: taken, Symbol: '-'})
	}
	return report.MachineMap(w, m, options)
}
