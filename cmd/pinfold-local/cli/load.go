package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/cmd/internal/completion"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/throttling"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// loadOptions are the flags of load.
type loadOptions struct {
	dir    string
	output string
	plan   load.Plan
	cpu    time.Duration // of each request
	log    string        // file of the requests
}

func newLoad() *cobra.Command {
	var options loadOptions
	command := &cobra.Command{
		Use:   "load {POD|URL}...",
		Short: "Send requests to web servers, and measure latency and throttling",
		Long: `load sends batches of requests to each server for the given time, whether or not
earlier ones were answered, and prints their latencies, measured from when each was
due.

A server is a pod on this machine ([NAMESPACE/]NAME) or an http:// URL of this
machine or of a private network. For pods with a CPU limit it also prints, from the
kernel's counters, in how many periods they were throttled and how much of the limit
they used. This needs a cluster with this machine as a real node, and root.

Several servers are measured at the same time, with their batches spread out.`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage.Errorf("%s needs a pod or a URL; see %[1]s --help", command.CommandPath())
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			return runLoad(command.Context(), options, args, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	addDirFlag(command, &options.dir)
	command.ValidArgsFunction = completion.Each(func(ctx context.Context) []string { return podNames(ctx, options.dir) })
	flags := command.Flags()
	flags.IntVar(&options.plan.Batch, "batch", 4, "requests sent at once")
	flags.DurationVar(&options.plan.Every, "every", 503*time.Millisecond, "time from one batch to the next")
	flags.DurationVar(&options.plan.Duration, "duration", 30*time.Second, "how long batches are sent")
	flags.DurationVar(&options.plan.Jitter, "jitter", 0, "delay each batch by a random time of up to this")
	flags.Uint64Var(&options.plan.Seed, "seed", 1, "seed of the random delays; the same seed gives the same delays")
	flags.DurationVar(&options.plan.Timeout, "timeout", 10*time.Second, "how long a request may take")
	flags.DurationVar(&options.cpu, "cpu", 0, "CPU time that each request asks for with ?cpu=, as the example images understand it")
	flags.StringVar(&options.log, "requests", "", "also write the start and the end of each answered request to the new `FILE` (CSV), for 'pinfold why --requests'; one server only")
	flags.StringVarP(&options.output, "output", "o", "text", "print the result as `text|json`")
	return command
}

func runLoad(ctx context.Context, options loadOptions, args []string, stdout, stderr io.Writer) error {
	write, ok := map[string]func(io.Writer, []throttling.Row) error{"text": throttling.WriteTable, "json": throttling.WriteJSON}[options.output]
	if !ok {
		return usage.Errorf("output %q is neither text nor json", options.output)
	}
	if err := options.plan.Check(); err != nil {
		return usage.Errorf("%w", err)
	}
	if options.cpu < 0 {
		return usage.Errorf("a CPU time of %v: it must be 0 or more", options.cpu)
	}
	if options.log != "" && len(args) > 1 {
		return usage.Errorf("--requests: a file has the requests of one server, and there are %d", len(args))
	}
	groups, targets, err := options.targets(ctx, args)
	if err != nil {
		return err
	}
	var log *os.File
	if options.log != "" {
		if log, err = os.OpenFile(options.log, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err != nil {
			return fmt.Errorf("write the requests: %w", err)
		}
		defer func() { _ = log.Close() }()
	}
	newProgress(stderr).step(fmt.Sprintf("sending %d requests every %v to each of %d servers, for %v", options.plan.Batch, options.plan.Every, len(targets), options.plan.Duration))
	rows, err := throttling.MeasureAll(ctx, groups, targets, options.plan)
	if rows == nil {
		return err
	}
	if log != nil {
		err = errors.Join(err, rows[0].Load.WriteRequests(log), log.Close())
	}
	return errors.Join(write(stdout, rows), err, failures(rows))
}

// failures returns an error if a server answered no request.
func failures(rows []throttling.Row) error {
	var errs []error
	for _, r := range rows {
		if r.Load.Failed() > 0 && len(r.Load.Latencies) == 0 {
			errs = append(errs, fmt.Errorf("%s answered no request successfully", r.Name))
		}
	}
	return errors.Join(errs...)
}

// targets returns the servers, and the cgroups of this machine, nil if all servers are URLs.
func (o loadOptions) targets(ctx context.Context, args []string) (groups *cgroup.FS, targets []throttling.Target, err error) {
	var pods *podFinder
	for _, arg := range args {
		target := throttling.Target{Name: arg, URL: arg}
		if !strings.Contains(arg, "://") {
			if pods == nil {
				if pods, err = newPodFinder(o.dir); err != nil {
					return nil, nil, err
				}
				groups = pods.groups
			}
			if target, err = pods.find(ctx, arg); err != nil {
				return nil, nil, err
			}
		}
		if o.cpu > 0 {
			if target, err = target.Asking(o.cpu); err != nil {
				return nil, nil, usage.Errorf("%w", err)
			}
		}
		targets = append(targets, target)
	}
	return groups, targets, nil
}

// podNames returns the names of the pods of a running cluster, for completion.
func podNames(ctx context.Context, dir string) (names []string) {
	state, err := localcluster.ReadState(dir)
	if err != nil {
		return nil
	}
	client, err := newClient(state)
	if err != nil {
		return nil
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names
}

func newClient(state localcluster.State) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", state.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}

// podFinder finds the pods of a running cluster and their cgroups on this machine.
type podFinder struct {
	client kubernetes.Interface
	groups *cgroup.FS
	naming kubepods.Naming
}

func newPodFinder(dir string) (*podFinder, error) {
	state, err := localcluster.ReadState(dir)
	if err != nil {
		return nil, err
	}
	f := &podFinder{}
	if f.client, err = newClient(state); err != nil {
		return nil, err
	}
	if f.groups, err = cgroup.Open("/"); err != nil {
		return nil, fmt.Errorf("find the cgroups: %w", err)
	}
	if f.naming, err = kubepods.Find(f.groups, ""); err != nil {
		return nil, fmt.Errorf("find the kubelet's cgroups: %w; pods run only on a real node (pinfold-local up --node)", err)
	}
	return f, nil
}

// find returns the target for a pod, [NAMESPACE/]NAME.
func (f *podFinder) find(ctx context.Context, name string) (throttling.Target, error) {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		namespace, name = metav1.NamespaceDefault, namespace
	}
	pod, err := f.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return throttling.Target{}, fmt.Errorf("find pod %s/%s: %w", namespace, name, err)
	}
	return throttling.OfPod(f.naming, pod)
}
