package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/cluster"
	"pinfold.dev/pinfold/cmd/pinfold/internal/prometheus"
	"pinfold.dev/pinfold/core/quantity"
)

// CSV prints a row for each container.
const CSV frame.Format = "csv"

// Options are the flags for all workloads of a cluster.
type Options struct {
	server     prometheus.Server
	connection cluster.Connection
	namespace  string
	match      string
	since      time.Duration
	dry        bool
	check      bool
	patches    string
}

// AddFlags adds the flags.
func (o *Options) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	o.server.AddFlags(cmd)
	o.server.Cluster = o.connection.Server
	o.connection.AddFlags(cmd)
	f.StringVarP(&o.namespace, "namespace", "n", "", "with --prometheus: only this `NAMESPACE`")
	f.StringVar(&o.match, "match", "", "with --prometheus: only series with these `LABELS`, such as 'cluster=\"prod\"'")
	prometheus.SinceFlag(cmd, &o.since, 7*24*time.Hour, "with --prometheus: this TIME until now, such as 24h or 7d")
	f.BoolVar(&o.check, "check", false, "with --prometheus: exit with status 1 if a container is throttled in more periods than wanted")
	f.StringVar(&o.patches, "patches", "", "with --prometheus: write kustomize patches for what is sure to the new directory `DIR`")
	f.BoolVar(&o.dry, "dry-run", false, "with --prometheus: print the queries instead of asking")
}

// matchers are label matchers of Prometheus.
var matchers = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"[^"\\\n{}]*"(,[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"[^"\\\n{}]*")*$`)

// Run asks, and prints the verdicts. goal is the share of periods that may be throttled, and html the
// file of the page, "" for none.
func (o *Options) Run(cmd *cobra.Command, goal float64, format frame.Format, verbose bool, html string, replace bool) error {
	if o.since < 2*leastStep {
		return frame.Usagef("--since %v: it must be %v or more, and a day or more tells most", o.since, 2*leastStep)
	}
	ctx, stop := frame.Interruptible(cmd.Context())
	defer stop()
	progress := frame.NewProgress(cmd.ErrOrStderr())
	for _, name := range []string{"kubeconfig", "context", "request-timeout"} {
		if cmd.Flags().Changed(name) && !o.server.Named() {
			return frame.Usagef("--%s is for a server in the cluster, such as --prometheus monitoring/prometheus:9090: a URL does not need it", name)
		}
	}
	if o.match != "" && !matchers.MatchString(o.match) {
		return frame.Usagef("--match %q: it must be like 'cluster=\"prod\"', or several with commas between them", o.match)
	}
	unmeasured := false
	r := Request{Unmeasured: func(err error) {
		if !unmeasured {
			frame.Notef(cmd.ErrOrStderr(), "the agents' histograms are left out: %v", err)
		}
		unmeasured = true
	}, Namespace: o.namespace, Match: o.match, Since: o.since, At: time.Now(), Goal: goal, Progress: func(done, all int) {
		progress.Draw(func() string {
			return fmt.Sprintf("%s %d of %d containers", frame.Bar(float64(done)/float64(all)), done, all)
		})
	}}
	if o.dry {
		for _, name := range []string{"check", "patches", "html", "output"} {
			if cmd.Flags().Changed(name) {
				return frame.Usagef("--dry-run asks nothing, so there is nothing for --%s: leave one out", name)
			}
		}
		for _, query := range r.Queries() {
			fmt.Fprintln(cmd.OutOrStdout(), query)
		}
		return nil
	}
	client, err := o.server.Connect()
	if err != nil {
		return err
	}
	found, err := Read(ctx, client, r)
	progress.End()
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil && len(found) == 0 {
		return err
	}
	r.Incomplete = err != nil
	Sort(found)
	if o.patches != "" && err == nil { // else they would be those of a part
		err = o.writePatches(cmd.ErrOrStderr(), found, &r)
	}
	if o.check {
		err = errors.Join(err, checked(found, goal))
	}
	if html != "" && !r.Incomplete { // a page that is there stays
		err = errors.Join(err, writePage(html, replace, found, &r))
	}
	switch format {
	case frame.JSON:
		return errors.Join(err, frame.PrintJSON(cmd.OutOrStdout(), found))
	case CSV:
		return errors.Join(err, PrintCSV(cmd.OutOrStdout(), found))
	}
	return errors.Join(err, Print(cmd.OutOrStdout(), found, &r, verbose))
}

func (o *Options) writePatches(stderr io.Writer, found []Workload, r *Request) error {
	patches, left, err := Patches(found, r)
	if err != nil {
		return err
	}
	if left > 0 {
		frame.Notef(stderr, "no patch for %s whose pods something else makes than a Deployment, StatefulSet, DaemonSet or CronJob", quantity.Count(left, "workload"))
	}
	return WritePatches(o.patches, patches)
}

// checked returns an error if a container is throttled in more periods than wanted.
func checked(found []Workload, goal float64) error {
	n := 0
	for i := range found {
		if t := found[i].Throttled; t != nil && *t > goal {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("throttled in more than %[2]s of the periods: %[1]s", quantity.Count(n, "container"), quantity.Share(goal))
}

func writePage(file string, replace bool, found []Workload, r *Request) error {
	var page bytes.Buffer
	if err := Page(&page, found, r); err != nil {
		return err
	}
	return frame.SuggestForce(frame.WriteFile(file, page.Bytes(), replace))
}
