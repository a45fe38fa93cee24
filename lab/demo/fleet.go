package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/load"
)

// Fleet is a cluster whose node is this machine, and how long its pods run. [Fleet.Run] runs a dozen
// pods, a Prometheus that measures them as in most clusters, and "pinfold advise" about them.
type Fleet struct {
	Config         *rest.Config
	Kubeconfig     string
	Kubelet, Agent string // host:port of their metrics
	Programs       string // directory of FleetPrograms
	Duration       time.Duration
	Page           string // the file to write
	// Waiting is called each second with the share of the time that is over.
	Waiting func(done float64)
}

// FleetPrograms are the commands that a fleet needs besides those of a node.
func FleetPrograms() []string { return []string{pinfold, prometheus, stateMetrics} }

// The names of programs.
const (
	pinfold      = "pinfold"
	prometheus   = "prometheus"
	stateMetrics = "kube-state-metrics"
)

// requestTimeout is longer than any request of a fleet takes.
const requestTimeout = 10 * time.Second

// Run runs the pods until the first full minute after f.Duration, because advice is about whole
// minutes. Everything that it starts outside of the cluster is ended and removed.
func (f *Fleet) Run(ctx context.Context, out Output) error {
	client, err := kubernetes.NewForConfig(f.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	out.Progress("starting " + quantity.Count(podsOf(fleet()), "pod"))
	addresses, err := startFleet(ctx, client)
	if err != nil {
		return err
	}
	out.Progress("starting Prometheus and kube-state-metrics")
	monitoring, err := f.startMonitoring(ctx, client)
	if err != nil {
		return err
	}
	defer monitoring.Close()
	begin := time.Now()
	end := begin.Add(f.Duration + time.Minute - 1).Truncate(time.Minute)
	out.Progress(fmt.Sprintf("running the pods for %v", end.Sub(begin).Round(time.Second)))
	if err := describeFleet(out.Writer); err != nil {
		return err
	}
	if err := f.load(ctx, addresses, begin, end); err != nil {
		return err
	}
	out.Progress("asking for advice")
	return f.advise(ctx, monitoring.url, end.Sub(begin), out.Writer)
}

// describeFleet prints what the workloads do.
func describeFleet(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WORKLOAD\tPODS\tLIMIT\tREQUEST\tWHAT IT DOES")
	for _, a := range fleet() {
		limit := "-"
		if a.limit > 0 {
			limit = quantity.CPUs(a.limit).Amount()
		}
		fmt.Fprintf(table, "%s/%s\t%d\t%s\t%s\t%s\n", a.namespace, a.name, a.replicas, limit, quantity.CPUs(a.request).Amount(), a.does())
	}
	fmt.Fprintln(table)
	return table.Flush()
}

// load sends requests to the pods until a time.
func (f *Fleet) load(ctx context.Context, addresses map[string][]string, begin, end time.Time) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	defer group.Wait()
	for i, a := range fleet() {
		for j, address := range addresses[a.name] {
			if a.requests == 0 {
				continue
			}
			plan := load.Plan{Batch: a.requests, Every: a.every, Jitter: a.every / 2, Duration: end.Sub(begin), Seed: uint64(100*i + j), Timeout: requestTimeout}
			group.Go(func() {
				if err := send(ctx, plan, fmt.Sprintf("http://%s/?cpu=%v", address, a.cpu)); err != nil {
					cancel(fmt.Errorf("requests to %s: %w", a.name, err))
				}
			})
		}
	}
	for left := time.Until(end); left > 0; left = time.Until(end) {
		f.Waiting(1 - float64(left)/float64(end.Sub(begin)))
		if !sleep.For(ctx, min(left, time.Second)) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// send sends the requests of a plan. It returns an error if none is answered.
func send(ctx context.Context, plan load.Plan, url string) error {
	client, err := load.NewHTTP(url)
	if err != nil {
		return err
	}
	defer client.Close()
	result, err := load.Run(ctx, plan, client.Send)
	if ctx.Err() != nil {
		return nil // the caller knows why
	}
	if err == nil && len(result.Answered) == 0 {
		err = fmt.Errorf("none of %d was answered: %v", result.Sent, result.Failures)
	}
	return err
}

// leastSince is the shortest time that advice is about.
const leastSince = 3 * time.Minute

// advise prints and writes the advice. The time begins with the first minute in which all pods ran.
func (f *Fleet) advise(ctx context.Context, url string, ran time.Duration, w io.Writer) error {
	since := max(ran.Truncate(time.Minute), leastSince)
	args := []string{"advise", "--prometheus", url, "--since", fmt.Sprintf("%.0fm", since.Minutes())}
	for _, namespace := range namespacesOf(fleet()) {
		args = append(args, "--namespace", namespace)
	}
	fmt.Fprintf(w, "$ pinfold %s -v --html %s\n", strings.Join(args, " "), f.Page)
	command := exec.CommandContext(ctx, filepath.Join(f.Programs, pinfold), append(args, "-v", "--html", f.Page, "--force")...)
	var stderr strings.Builder
	command.Stdout, command.Stderr = w, &stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("pinfold advise: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	_, err := fmt.Fprintf(w, "%s\nThe same as a page: %s\n", stderr.String(), f.Page)
	return err
}

// CheckFleet returns an error if this machine cannot run a fleet with the programs of a directory.
func CheckFleet(programs string, cpus int) error {
	if os.Geteuid() != 0 {
		return errors.New("a fleet runs a kubelet on this machine, which needs root: run this with sudo")
	}
	if cpus < 2 {
		return errors.New("the pods of a fleet need two CPUs, and this machine has one")
	}
	missing := slices.DeleteFunc(append(FleetPrograms(), "pinfold-agent"), func(name string) bool {
		info, err := os.Stat(filepath.Join(programs, name))
		return err == nil && info.Mode().IsRegular()
	})
	if len(missing) > 0 {
		return fmt.Errorf("%s has no %s: \"make demo-fleet\" builds what it needs", programs, strings.Join(missing, ", "))
	}
	return nil
}
