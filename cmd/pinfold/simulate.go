package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/interference"
)

func newSimulate() *cobra.Command {
	cmd := &cobra.Command{
		Use: `simulate --distribution NAME --mean U[,U...] --cgroups M[,M...]
                   [--burst B[,B...]] [--periods N] [--precision P]
                   [--rule strict|published] [--seed S] [-o text|json]
  pinfold simulate --trace FILE... [--cgroups M[,M...]] [--cpus CPUS]
                   [--limit CPUS] [--order blocks|replay|independent] ...`,
		Short: "Say what burst does to the neighbours",
		Long: `Simulate containers that share a machine. Each has a quota and may save up what
it does not use of it (burst). With --distribution each wants a random part of
its quota in a period, and the quotas are equal parts of the machine. With
--trace each wants what a recorded container wanted, and the quotas are --limit,
or equal parts of --cpus, or as recorded.

The WCET of a period is the number of periods until what was wanted in it is
done: 1 when the machine does it in the same period.`,
		Example: `  pinfold simulate --distribution exponential --mean 0.5,70% --cgroups 10,20
  pinfold simulate --distribution pareto --mean 0.7 --cgroups 20 --burst 200%,inf
  pinfold simulate --trace web.parquet --cgroups 10 --burst 200% --cpus 4`,
		DisableFlagsInUseLine: true,
	}
	s := &scenario{
		demand:  newDemandFlags(cmd),
		replay:  replayFlags(cmd),
		means:   newValues("U,U,...", "", parseNumber),
		cgroups: newValues("M,M,...", "", parseCount),
		bursts:  newValues("B,B,...", "0,100%", parseBurst),
		effort:  effortFlags(cmd),
		output:  outputFlag(cmd),
	}
	cmd.Flags().Var(s.means, "mean", "demand per period, on average, in multiples of the quota")
	cmd.Flags().Var(s.cgroups, "cgroups", "how many containers share the machine (with --trace by default one of each recorded)")
	cmd.Flags().Var(s.bursts, "burst", "unused quota that each may save up, as a percentage of its quota such as 200%; inf is unlimited")
	cmd.Args = s.moreFiles
	cmd.RunE = asked(s.run)
	cmd.AddCommand(newSweep())
	return cmd
}

// scenario is what is asked of the simulator.
type scenario struct {
	demand  *demandFlags
	replay  *replayed
	means   *values[float64]
	cgroups *values[int]
	bursts  *values[burst]
	effort  *effort
	output  *choice
}

// moreFiles takes further files of --trace.
func (s *scenario) moreFiles(cmd *cobra.Command, args []string) error {
	if len(s.replay.files) == 0 {
		return noCommand(cmd, args)
	}
	s.replay.files = append(s.replay.files, args...)
	return nil
}

func (s *scenario) run(cmd *cobra.Command, _ []string) error {
	all, err := s.ask(cmd)
	if err != nil {
		return err
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	for _, doubt := range s.replay.doubts() {
		fmt.Fprintln(stderr, "pinfold:", doubt)
	}
	done, err := s.effort.simulateAll(cmd.Context(), stderr, all)
	warnSimulated(stderr, done)
	if len(done) == 0 {
		return err
	}
	return errors.Join(err, s.print(stdout, done))
}

func (s *scenario) print(stdout io.Writer, done []simulated) error {
	if s.output.value == outJSON {
		return printJSON(stdout, s.simulations(done))
	}
	return s.printText(stdout, done)
}

// ask returns the combinations, all of which have an answer.
func (s *scenario) ask(cmd *cobra.Command) ([]combination, error) {
	if err := s.effort.check(cmd); err != nil {
		return nil, err
	}
	all, err := s.combinations(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	if err := s.effort.checkAll(all); err != nil {
		return nil, s.refuse(err)
	}
	return all, nil
}

// refuse makes an error of the question that of the command line, if it was all there.
func (s *scenario) refuse(err error) error {
	if len(s.replay.files) > 0 {
		return err
	}
	return &wrongUsage{err.Error()}
}

func (s *scenario) combinations(ctx context.Context, stderr io.Writer) ([]combination, error) {
	if err := s.checkSource(); err != nil {
		return nil, err
	}
	if s.replay.given("trace") == "" {
		return s.drawn()
	}
	if err := s.replay.read(ctx, stderr); err != nil {
		return nil, err
	}
	return s.replay.combinations(s.cgroups.each, s.bursts.each)
}

// checkSource refuses demand from nowhere and from two places.
func (s *scenario) checkSource() error {
	drawn := s.demand.given("mean")
	fromTrace := s.replay.given("cpus", "order")
	switch {
	case len(s.replay.files) > 0 && drawn != "":
		return &wrongUsage{fmt.Sprintf("--trace and --%s both say what the demand is: use one of them", drawn)}
	case len(s.replay.files) > 0:
		return nil
	case s.demand.name == "" && fromTrace == "":
		return &wrongUsage{"no demand given: use --trace FILE, or --distribution NAME, which is " + familyNames()}
	case fromTrace != "":
		return &wrongUsage{fmt.Sprintf("--%s is about recordings: name one with --trace", fromTrace)}
	case len(s.means.each) == 0:
		return &wrongUsage{"--mean is missing: say what a container wants per period, as in --mean 0.7 for 70% of its quota"}
	case len(s.cgroups.each) == 0:
		return &wrongUsage{"--cgroups is missing: say how many containers share the machine, as in --cgroups 10"}
	}
	return nil
}

// drawn are each mean with each number of groups and each burst, in this order.
func (s *scenario) drawn() ([]combination, error) {
	var all []combination
	for _, mean := range s.means.each {
		process, err := s.demand.process(mean)
		if err != nil {
			return nil, err
		}
		for _, m := range s.cgroups.each {
			quota := 1 / float64(m)
			for _, b := range s.bursts.each {
				group := interference.Group{Count: m, Quota: quota, Burst: b.quotas(), Demand: process}
				all = append(all, combination{name: s.demand.name, mean: mean, cgroups: m, burst: b, quota: quota, capacity: 1,
					groups: []interference.Group{group}})
			}
		}
	}
	return all, nil
}
