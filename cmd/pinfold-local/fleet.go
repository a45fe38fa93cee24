package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/lab/demo"
	"pinfold.dev/pinfold/lab/localcluster"
)

// parseDuration parses how long the pods of a fleet run. The token of its Prometheus is valid for an
// hour.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 10*time.Second || d > 50*time.Minute {
		return 0, errors.New("want 10s to 50m")
	}
	return d, nil
}

// fleetGates let a kubelet serve the metrics that containerd has of its containers. Those of its own
// have no names of pods, unless containerd is at its usual address.
var fleetGates = map[string]bool{"PodAndContainerStatsFromCRI": true}

// programsDir is the directory of this program, in which the other ones are.
func programsDir() (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the programs: %w", err)
	}
	return filepath.Dir(executable), nil
}

func checkFleet(host *topology.Machine) error {
	programs, err := programsDir()
	if err != nil {
		return err
	}
	return demo.CheckFleet(programs, host.Online().Len())
}

// runFleet runs a fleet on the node of a cluster. The page stays if there is advice.
func runFleet(ctx context.Context, cluster *localcluster.Cluster, duration time.Duration, output demo.Output, progress *frame.Progress) error {
	programs, err := programsDir()
	if err != nil {
		return err
	}
	page, err := os.CreateTemp("", "pinfold-fleet-*.html")
	if err != nil {
		return fmt.Errorf("create the page: %w", err)
	}
	_ = page.Close() // nothing was written
	defer progress.End()
	output.Progress = func(step string) {
		progress.End()
		progress.Step(step)
	}
	kubelet, agent := cluster.Node().MetricsAddresses()
	fleet := demo.Fleet{
		Config: cluster.RESTConfig(), Kubeconfig: cluster.Kubeconfig(), Kubelet: kubelet, Agent: agent,
		Programs: programs, Duration: duration, Page: page.Name(),
		Waiting: func(done float64) {
			progress.Draw(func() string { return fmt.Sprintf("%s  (ctrl-C ends)", frame.Bar(done)) })
		},
	}
	if err := fleet.Run(ctx, output); err != nil {
		return errors.Join(err, os.Remove(page.Name()))
	}
	return nil
}
