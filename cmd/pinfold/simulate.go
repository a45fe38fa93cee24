package main

import (
	"errors"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/interference"
)

func newSimulate() *cobra.Command {
	cmd := &cobra.Command{
		Use: `simulate --distribution NAME --mean U[,U...] --cgroups M[,M...]
                   [--burst B[,B...]] [--periods N] [--precision P]
                   [--rule strict|published] [--seed S] [-o text|json]`,
		Short: "What burst does to the neighbours",
		Long: `Simulate containers that share a machine, each with an equal part of it as its quota
and leave to save up unused quota (burst), and say how often all of them together
want more than there is. WCET is the number of periods until what was wanted in one
is done: 1 when it is done in the same.`,
		Example: `  pinfold simulate --distribution exponential --mean 0.5,70% --cgroups 10,20
  pinfold simulate --distribution pareto --mean 0.7 --cgroups 20 --burst 0,200%,inf`,
		Args:                  noCommand,
		DisableFlagsInUseLine: true,
	}
	q := &scenario{
		demand:  newDemandFlags(cmd),
		means:   newValues("U,U,...", "", parseNumber),
		cgroups: newValues("M,M,...", "", parseCount),
		bursts:  newValues("B,B,...", "0,1", parseBurst),
		effort:  effortFlags(cmd),
		output:  outputFlag(cmd),
	}
	cmd.Flags().Var(q.means, "mean", "demand per period, on average, in multiples of the quota")
	cmd.Flags().Var(q.cgroups, "cgroups", "how many share the machine")
	cmd.Flags().Var(q.bursts, "burst", "unused quota that each may save up, in multiples of its quota; inf is without end")
	cmd.RunE = asked(q.run)
	return cmd
}

// scenario is what is asked of the simulator.
type scenario struct {
	demand  *demandFlags
	means   *values[float64]
	cgroups *values[int]
	bursts  *values[burst]
	effort  *effort
	output  *choice
}

func (q *scenario) run(cmd *cobra.Command, _ []string) error {
	all, err := q.ask(cmd)
	if err != nil {
		return err
	}
	done, err := q.effort.simulateAll(cmd.Context(), cmd.ErrOrStderr(), all)
	warnSimulated(cmd.ErrOrStderr(), done)
	if len(done) == 0 {
		return err
	}
	if q.output.value == outJSON {
		return errors.Join(err, printJSON(cmd.OutOrStdout(), simulationsJSON(done, q.effort.seed)))
	}
	return errors.Join(err, printSimulated(cmd.OutOrStdout(), done))
}

// ask returns the combinations, all of which have an answer.
func (q *scenario) ask(cmd *cobra.Command) ([]combination, error) {
	if err := q.effort.check(cmd); err != nil {
		return nil, err
	}
	all, err := q.combinations()
	if err != nil {
		return nil, err
	}
	if err := q.effort.checkAll(all); err != nil {
		return nil, &wrongUsage{err.Error()}
	}
	return all, nil
}

// combinations are each mean with each number of groups and each burst, in this order.
func (q *scenario) combinations() ([]combination, error) {
	switch {
	case q.demand.name == "":
		return nil, &wrongUsage{"no demand given: use --distribution NAME, which is " + familyNames()}
	case len(q.means.each) == 0:
		return nil, &wrongUsage{"--mean is missing: say what a group wants per period, as in --mean 0.7 for 70% of its quota"}
	case len(q.cgroups.each) == 0:
		return nil, &wrongUsage{"--cgroups is missing: say how many share the machine, as in --cgroups 10"}
	}
	var all []combination
	for _, mean := range q.means.each {
		process, err := q.demand.process(mean)
		if err != nil {
			return nil, err
		}
		for _, m := range q.cgroups.each {
			quota := 1 / float64(m)
			for _, b := range q.bursts.each {
				group := interference.Group{Count: m, Quota: quota, Burst: float64(b), Demand: process}
				all = append(all, combination{name: q.demand.name, mean: mean, cgroups: m, burst: b, quota: quota, capacity: 1,
					groups: []interference.Group{group}})
			}
		}
	}
	return all, nil
}
