// Package status implements the subcommand "status" ([New]), which shows the state of Pinfold in a
// cluster: agents, schedulers, CPUs, pods that wait, and what is wrong. It reads the cluster with
// package kube/survey; package report/status prints the result.
package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/cluster"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/survey"
	"pinfold.dev/pinfold/report/terminal"

	text "pinfold.dev/pinfold/report/status"
)

// options is what the flags request.
type options struct {
	cluster.Connection
	leaseNamespace, node string
	check, pods          bool
	namespace            string
	output               frame.Format
}

// wide is text with all nodes and more columns.
const wide frame.Format = "wide"

// New returns the subcommand "status".
func New() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "status [NODE] [flags]",
		Short: "Show agents, schedulers, CPUs and problems in a cluster",
		Long: `Show the state of Pinfold in a cluster: which scheduler leads, whether the
agents report, how many CPUs are exclusive, what is wrong and what to do about
it, and why pods that ask for CPUs wait. With a NODE it shows this node, with a
map of its CPUs and who has them. With --pods it lists which pods have which
CPUs on which nodes.

It reads nodes, pods, NodeTopologies and leases, and if it may DaemonSets and
Deployments. What else this user may not list is named, and the rest is shown.
It changes nothing.`,
		Example: `  pinfold status worker-3           # one node, with a map of its CPUs
  pinfold status --pods -n shop     # which pods of a namespace have which CPUs
  pinfold status --check >/dev/null # exit status 1 if something is wrong`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return frame.Usagef("%d nodes are named: give one, or none for the whole cluster", len(args))
			case len(args) == 1 && args[0] == "":
				return frame.Usagef("the NODE is empty: name one, or leave it out for the whole cluster")
			case o.namespace != "" && !o.pods:
				return frame.Usagef("--namespace selects pods: give it with --pods")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.node = strings.Join(args, "")
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	o.AddFlags(cmd)
	flags.StringVar(&o.leaseNamespace, "lease-namespace", nodetopology.LeaseNamespace, "agents and schedulers renew their leases in `NAMESPACE` (those of schedulers may also be in kube-system)")
	flags.BoolVar(&o.check, "check", false, "exit with status 1 if there is a problem (not a warning), or something could not be read; otherwise with 3 if pods do not get the CPUs that they ask for")
	flags.BoolVar(&o.pods, "pods", false, "list which pods have which CPUs, on which nodes")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "with --pods, only the pods of `NAMESPACE` (default all)")
	frame.OneOf(flags, &o.output, "output", "how to print the result; wide is text with all nodes and more columns", frame.Text, wide, frame.JSON)
	cmd.ValidArgsFunction = frame.CompleteFirst(o.nodeNames)
	return cmd
}

func (o *options) run(ctx context.Context, stdout io.Writer) error {
	// client-go logs what the errors of this command say as well.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, stop := frame.Interruptible(ctx)
	defer stop()
	client, server, err := o.connect()
	if err != nil {
		return err
	}
	objects, err := client.Read(ctx, o.node)
	if err != nil {
		return o.explain(ctx, client, server, err)
	}
	report := objects.Report()
	if err := o.print(stdout, report); err != nil {
		return err
	}
	if o.check {
		return checkProblems(report)
	}
	return nil
}

// connect returns a client, and the address of the API server.
func (o *options) connect() (*survey.Client, string, error) {
	config, _, err := o.Config()
	if err != nil {
		return nil, "", err
	}
	client, err := survey.NewClient(config, o.leaseNamespace)
	if err != nil {
		return nil, "", fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return client, config.Host, nil
}

func (o *options) print(w io.Writer, report *status.Report) error {
	options := text.Options{Wide: o.output == wide, Map: terminal.MapOptions(w, os.Getenv)}
	switch {
	case o.pods && o.output == frame.JSON:
		return frame.PrintJSON(w, holders{report.Holders(o.namespace), report.Unsure(), report.Unread})
	case o.pods:
		return text.WriteHolders(w, report, o.namespace, options)
	case o.output == frame.JSON:
		return frame.PrintJSON(w, report)
	case o.node != "" && len(report.Nodes) == 1:
		return text.WriteNode(w, report, options)
	}
	return text.Write(w, report, options)
}

// holders is what --pods prints as JSON.
type holders struct {
	Containers []status.Holder `json:"containers"`
	Unsure     []string        `json:"unsureNodes"`
	Unread     []status.Unread `json:"unread"`
}

// unservedStatus is the exit status of --check if the only thing that is wrong is pods that do not get
// what they ask for. It has a status of its own because everybody who may create pods can cause that.
const unservedStatus = 3

// checkProblems returns an error if a report has problems or is incomplete, or pods do not get what they
// ask for.
func checkProblems(report *status.Report) error {
	var found []string
	if n := len(report.Of(status.Error)); n > 0 {
		found = append(found, quantity.Count(n, "problem"))
	}
	for _, u := range report.Unread {
		found = append(found, u.Resource+" could not be read")
	}
	if len(found) > 0 {
		return errors.New(strings.Join(found, ", "))
	}
	unserved := map[string]bool{}
	for _, p := range report.Problems {
		if p.Kind.Unserved() {
			unserved[p.Pod] = true
		}
	}
	if n := len(unserved); n > 0 {
		return &frame.ExitError{Status: unservedStatus, Err: fmt.Errorf("%s without the CPUs asked for", quantity.Count(n, "pod"))}
	}
	return nil
}

// completionTimeout limits how long a shell waits for the names of nodes.
const completionTimeout = 3 * time.Second

// nodeNames returns the names of the cluster's nodes, for completion.
func (o *options) nodeNames(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	client, _, err := o.connect()
	if err != nil {
		return nil
	}
	names, err := client.NodeNames(ctx)
	if err != nil {
		cobra.CompErrorln(err.Error())
	}
	return names
}
