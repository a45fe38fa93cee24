package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

func newPlace() *cobra.Command {
	cmd := &cobra.Command{
		Use: `place (--machine FILE | --sysfs PATH) --cpus N [--free CPULIST]
                [--policy static|static-burst] [--full-cores preferred|required]
                [-o text|json]
  pinfold place --batch FILE [-o json]`,
		Short: "Choose CPUs on a machine",
		Long: `Choose CPUs on a machine.

With --policy static these are N CPUs for one container alone: of as few NUMA
nodes, as near to each other, with as few split cores and caches as possible,
leaving large free pieces whole. With static-burst they are all free CPUs of as
few NUMA nodes as have N of them, to be shared by containers confined there.

--batch answers many requests, one JSON object a line, with one JSON object a
line, in the same order. A request is
  {"machineFile":"machine.json","free":"0-15","cpus":4,"policy":"static",
   "fullCores":"required"}
on one line, or has the machine itself as "machine":{...} instead of
"machineFile". A machine file is looked for beside the batch file, with - in the
current folder. Only "cpus" and a machine are needed. What cannot be answered
becomes {"error":"line 3: ..."}.`,
		Example: `  pinfold place --sysfs /sys --cpus 4
  pinfold place --machine machine.json --free 0-15,52-67 --cpus 8 -o json
  pinfold place --batch requests.jsonl -o json`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	q := &question{from: sourceFlags(cmd, "")}
	cmd.Flags().Var(&q.cpus, "cpus", "how many CPUs, 1 or more")
	cmd.Flags().StringVar(&q.free, "free", "", "the free CPUs as a `CPULIST` such as 0-15,32-47 (default all online CPUs)")
	q.policy = oneOf(string(placement.Static), string(placement.StaticBurst))
	cmd.Flags().Var(q.policy, "policy", "what the CPUs are for")
	q.fullCores = oneOf(string(placement.FullCoresPreferred), string(placement.FullCoresRequired))
	cmd.Flags().Var(q.fullCores, "full-cores", "whether whole cores are a wish or a condition; for static only")
	batch := cmd.Flags().String("batch", "", "answer the requests in `FILE`, - for standard input")
	q.output = outputFlag(cmd)
	cmd.RunE = asked(func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("batch") {
			if err := q.check(cmd.Flags()); err != nil {
				return err
			}
			return q.answer(cmd.InOrStdin(), cmd.OutOrStdout())
		}
		if err := checkBatchFlags(cmd.Flags()); err != nil {
			return err
		}
		return answerBatch(cmd.Context(), *batch, cmd.InOrStdin(), cmd.OutOrStdout())
	})
	return cmd
}

// checkBatchFlags finds flags that have no meaning for a batch.
func checkBatchFlags(flags *pflag.FlagSet) error {
	for _, name := range []string{"machine", "sysfs", "cpus", "free", "policy", "full-cores"} {
		if flags.Changed(name) {
			return &wrongUsage{fmt.Sprintf("--%s cannot be used with --batch: every request says it for itself", name)}
		}
	}
	if flags.Lookup("batch").Value.String() == "" {
		return &wrongUsage{"--batch is empty: name a file, or - for standard input"}
	}
	if flags.Changed("output") && flags.Lookup("output").Value.String() != outJSON {
		return &wrongUsage{"the answers of --batch are JSON: use -o json"}
	}
	return nil
}

// question is one placement as the flags ask for it.
type question struct {
	from              *source
	cpus              count
	free              string
	freeGiven         bool // --free "" means that nothing is free
	policy, fullCores *choice
	output            *choice
}

// check finds what is wrong with the question on any machine.
func (q *question) check(flags *pflag.FlagSet) error {
	q.freeGiven = flags.Changed("free")
	if err := q.from.check(flags); err != nil {
		return err
	}
	if q.cpus == 0 {
		return &wrongUsage{"--cpus is missing: say how many CPUs to place, 1 or more"}
	}
	if _, err := cpuset.Parse(q.free); err != nil {
		return &wrongUsage{fmt.Sprintf("--free: %v", err)}
	}
	return nil
}

func (q *question) answer(stdin io.Reader, stdout io.Writer) error {
	m, err := q.from.read(stdin)
	if err != nil {
		return err
	}
	free := m.Online()
	if q.freeGiven {
		if free, err = freeCPUs(m, q.free); err != nil {
			return fmt.Errorf("--free: %w", err)
		}
	}
	request := placement.Request{
		CPUs:      int(q.cpus),
		Policy:    placement.Policy(q.policy.value),
		FullCores: placement.FullCores(q.fullCores.value),
	}
	result, err := placement.NewIndex(m).Place(free, request)
	if err != nil {
		return fmt.Errorf("cannot place: %w", err)
	}
	if q.output.value == outJSON {
		return printJSON(stdout, newAnswer(m, result))
	}
	return explain(stdout, m, free, request, result)
}

// freeCPUs reads a list of free CPUs of the machine.
func freeCPUs(m *topology.Machine, list string) (cpuset.Set, error) {
	free, err := cpuset.Parse(list)
	if err != nil {
		return cpuset.Set{}, err
	}
	if extra := free.Difference(m.Online()); !extra.IsEmpty() {
		return cpuset.Set{}, fmt.Errorf("CPUs %s are not online on this machine, which has %s", extra, m.Online())
	}
	return free, nil
}
