// Package fleet gives advice on all workloads of a cluster from what its Prometheus has measured
// (pinfold advise --prometheus).
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/metrics"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/workloads"
)

// CSV is a format of this advice alone.
const CSV frame.Format = "csv"

// Options are those of the flags.
type Options struct {
	server
	files      []string // of Prometheus, in place of a server
	namespaces []string
	since      model.Duration
	sinceGiven bool
	match      string
	names      []string
	exclude    []string
	dryRun     bool
	check      float64 // 0: not given
	patches    string
	change     *frame.List[string]
	maxFactor  float64
}

// The flags that make no sense without series of Prometheus, without a server, without the URL of
// one, and without the service of one.
var (
	needSeries  = []string{"namespace", "since", "match", "metric", "exclude-label", "check", "patches"}
	needServer  = append([]string{"header", "dry-run"}, needURL...)
	needURL     = []string{"token-file", "ca-file", "insecure-skip-tls-verify"}
	needService = []string{"kubeconfig", "context", "request-timeout"}
)

// AddFlags adds the flags.
func (o *Options) AddFlags(cmd *cobra.Command) {
	o.since = model.Duration(7 * 24 * time.Hour)
	f := cmd.Flags()
	f.StringVar(&o.url, "prometheus", "", "advise on the workloads of a cluster, from the metrics of the server at `URL`")
	f.StringVar(&o.serviceName, "prometheus-service", "", "as --prometheus, through the API server: the service `NS/NAME` of the cluster; also NS/NAME:PORT and NS/NAME:PORT/PATH")
	o.service.AddFlags(cmd)
	f.StringArrayVarP(&o.namespaces, "namespace", "n", nil, "only the namespace `NAME`; may be repeated")
	frame.Var(f, &o.since, "since", "TIME", "from the last `TIME`, such as 7d", model.ParseDuration)
	f.StringVar(&o.match, "match", "", "only series with these `LABELS`, as in 'cluster=\"a\"'")
	f.StringArrayVar(&o.names, "metric", nil, "the server has a metric under another name, `NAME=OTHER`; may be repeated")
	f.StringArrayVar(&o.exclude, "exclude-label", nil, "no advice on workloads whose pods have the label `KEY[=VALUE]`; may be repeated")
	f.StringArrayVar(&o.headers, "header", nil, "send the `HEADER` \"NAME: VALUE\" with each query; may be repeated")
	f.StringVar(&o.tokenFile, "token-file", "", "authenticate with the bearer token in `FILE`")
	f.StringVar(&o.caFile, "ca-file", "", "trust the certificates in `FILE`")
	f.BoolVar(&o.insecure, "insecure-skip-tls-verify", false, "trust any certificate")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the queries; ask only how many containers there are")
	o.addPatchFlags(cmd)
	frame.Var(f, &o.check, "check", "SHARE", "exit with status 3 if a container is throttled in more than `SHARE` of all periods", func(text string) (float64, error) {
		x, err := frame.ParseNumber(text)
		if err == nil && !(x > 0 && x < 1) {
			err = errors.New("want a share between 0 and 100%")
		}
		return x, err
	})
}

// The changes that patches may make.
const changeBurst, changeLimit, changeRequest = "burst", "limit", "request"

func (o *Options) addPatchFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.patches, "patches", "", "write a patch for each workload with advice that is sure into the new folder `DIR`, as a kustomize component")
	o.change = frame.NewList("WHAT,...", changeBurst, func(text string) (string, error) {
		if !slices.Contains([]string{changeBurst, changeLimit, changeRequest}, text) {
			return "", fmt.Errorf("want some of %s, %s, %s", changeBurst, changeLimit, changeRequest)
		}
		return text, nil
	})
	f.Var(o.change, "change", "what patches change: `WHAT` is burst, limit or request, or some of these")
	frame.CompleteWords(cmd, "change", changeBurst, changeLimit, changeRequest)
	o.maxFactor = 4
	frame.Var(f, &o.maxFactor, "max-change", "FACTOR", "patches change an amount to at most `FACTOR` times as much, or to that part of it", func(text string) (float64, error) {
		x, err := frame.ParseNumber(text)
		if err == nil && !(x > 1) {
			err = errors.New("want a number above 1")
		}
		return x, err
	})
}

// Wanted reports whether the flags ask for this advice. others are the flags of advice from
// recordings, which go with none of these.
func (o *Options) Wanted(cmd *cobra.Command, args []string, others ...string) (bool, error) {
	f, given := cmd.Flags(), "--prometheus"
	if o.serviceName != "" {
		given = "--prometheus-service"
	}
	for _, name := range []string{"prometheus", "prometheus-service", "patches"} {
		if f.Changed(name) && f.Lookup(name).Value.String() == "" {
			return false, frame.Usagef("--%s is empty: is a variable not set?", name)
		}
	}
	switch {
	case o.url != "" && o.serviceName != "":
		return false, frame.Usagef("--prometheus and --prometheus-service name a server each: give one of them")
	case o.url == "" && o.serviceName == "" && !isOfPrometheus(args):
		return false, cmp.Or(frame.Needs(f, "prometheus", append(needServer, needSeries...)...), frame.Needs(f, "prometheus-service", needService...))
	case o.url == "" && o.serviceName == "":
		o.files, o.sinceGiven, given = args, f.Changed("since"), "files of Prometheus"
		if err := frame.Needs(f, "prometheus", needServer...); err != nil {
			return false, err
		}
	case len(args) > 0:
		return false, frame.Usagef("%s is instead of files: leave out %s", given, strings.Join(args, " "))
	}
	if err := cmp.Or(frame.Needs(f, "patches", "change", "max-change"), frame.Needs(f, "prometheus-service", needService...)); err != nil {
		return false, err
	}
	for _, name := range needURL {
		if o.serviceName != "" && f.Changed(name) {
			return false, frame.Usagef("--%s is for --prometheus: the API server makes the connection to a service", name)
		}
	}
	for _, name := range others {
		if f.Changed(name) {
			return false, frame.Usagef("--%s is for recordings, and does not go with %s", name, given)
		}
	}
	return true, nil
}

// Output says what is wanted of the advice.
type Output struct {
	Throttled float64 // the share of all periods that may be throttled
	Format    frame.Format
	All       bool // also what should stay as it is
	Page      func(write func(io.Writer) error) error
}

// Run prints the advice.
func (o *Options) Run(cmd *cobra.Command, out Output) error {
	goal := counters.DefaultGoal()
	goal.Throttled = out.Throttled
	if err := goal.Validate(); err != nil {
		return frame.Usagef("%w", err)
	}
	names := map[string]string{}
	for _, text := range o.names {
		name, other, ok := strings.Cut(text, "=")
		if !ok {
			return frame.Usagef("--metric %s: want NAME=OTHER, as in %s=cpu:usage", text, metrics.Usage)
		}
		names[name] = other
	}
	options := metrics.Options{Namespaces: o.namespaces, Match: o.match, Names: names, End: time.Now().Truncate(time.Minute), Since: time.Duration(o.since)}
	for _, text := range o.exclude {
		key, value, _ := strings.Cut(text, "=")
		options.Exclude = append(options.Exclude, metrics.Label{Key: key, Value: value})
	}
	if err := options.Validate(); err != nil {
		return frame.Usagef("%w", err)
	}
	if _, err := os.Lstat(o.patches); o.patches != "" && err == nil {
		return fmt.Errorf("--patches %s exists: name a new folder, or remove it", o.patches)
	}
	ctx, stop := frame.Interruptible(cmd.Context())
	defer stop()
	client, err := o.source(ctx, &options, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	plan, err := metrics.NewPlan(ctx, client, options)
	if err != nil {
		return o.explain(ctx, err)
	}
	for _, l := range options.Exclude {
		known, err := plan.Knows(ctx, client, l)
		if err != nil {
			return o.explain(ctx, err)
		}
		if !known {
			frame.Notef(cmd.ErrOrStderr(), "no pod has the label %s, as far as kube-state-metrics says: %v", l.Key, l.Remedy())
		}
	}
	for _, w := range plan.Warnings {
		frame.Notef(cmd.ErrOrStderr(), "warning: %s", report.Printable(w))
	}
	if o.dryRun {
		return printPlan(cmd.OutOrStdout(), plan)
	}
	options = plan.Options
	found := &workloads.Report{Begin: options.End.Add(-options.Since), End: options.End, Goal: goal}
	failed := o.read(ctx, client, plan, found, cmd.ErrOrStderr())
	if failed != nil && len(found.Rows) == 0 {
		return failed
	}
	if failed == nil && len(found.Rows) == 0 {
		return fmt.Errorf("%s has containers, but too few values for their usage in %v: ask for more with --since, or look whether it scrapes the kubelets now", plan.Options.Source, plan.Window)
	}
	found.Sort()
	if err := printReport(cmd.OutOrStdout(), found, out.Format, out.All); err != nil || failed != nil {
		return errors.Join(failed, err)
	}
	if err := errors.Join(out.Page(found.HTML), o.writePatches(found, cmd.ErrOrStderr())); err != nil {
		return err
	}
	if n := found.ThrottledAbove(o.check); o.check > 0 && n > 0 {
		return &frame.ExitError{Status: 3, Err: fmt.Errorf("%s %s throttled in more than %v of all periods", quantity.Count(n, "container"), quantity.Are(n), quantity.Share(o.check))}
	}
	return nil
}

// writePatches writes the patches of --patches, if given: all or nothing.
func (o *Options) writePatches(found *workloads.Report, stderr io.Writer) error {
	if o.patches == "" {
		return nil
	}
	chosen := func(what string) bool { return slices.Contains(o.change.Each, what) }
	files, left, err := found.Patches(workloads.Choice{Burst: chosen(changeBurst), Limit: chosen(changeLimit), Request: chosen(changeRequest), MaxFactor: o.maxFactor})
	if err != nil {
		return err
	}
	for _, sentence := range left {
		frame.Notef(stderr, "%s", sentence)
	}
	if len(files) == 0 {
		frame.Notef(stderr, "there is nothing to patch, and %s is not written", o.patches)
		return nil
	}
	partial, err := os.MkdirTemp(filepath.Dir(filepath.Clean(o.patches)), ".pinfold-patches-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial) // if it was not renamed
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		name = filepath.Join(partial, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644)); err != nil {
			return err
		}
	}
	return os.Rename(partial, filepath.Clean(o.patches))
}

// read adds the rows of all batches to a report. Those that were read before an error are in it.
func (o *Options) read(ctx context.Context, client metrics.Server, plan *metrics.Plan, found *workloads.Report, stderr io.Writer) error {
	progress := frame.NewProgress(stderr)
	defer progress.End()
	var said []string
	say := func(text string) {
		if !slices.Contains(said, text) {
			said = append(said, text)
			progress.Say(text)
		}
	}
	noRequests, noLimits := true, true
	defer func() { forget(found, noRequests, noLimits) }()
	for i, b := range plan.Batches {
		progress.Draw(func() string {
			return fmt.Sprintf("%s  %v  query group %d of %d  (ctrl-C ends)", frame.Bar(float64(i)/float64(len(plan.Batches))), progress.Elapsed(), i+1, len(plan.Batches))
		})
		batch, err := plan.Read(ctx, client, b)
		if err != nil {
			if len(found.Rows) > 0 {
				return fmt.Errorf("%d of %d query groups are done and printed: %w", i, len(plan.Batches), o.explain(ctx, err))
			}
			return o.explain(ctx, err)
		}
		noRequests, noLimits = noRequests && batch.NoRequests, noLimits && batch.NoLimits
		for _, w := range batch.Warnings {
			say("warning: " + w)
		}
		if batch.NoState && o.files == nil { // or it was said
			say(plan.Options.Source + " has no metrics of kube-state-metrics: requests are unknown, and each pod is a workload of its own")
		}
		for _, w := range batch.Workloads {
			verdict := counters.Judge(w.Containers, plan.Slice, found.Goal)
			if w.Excluded {
				verdict.NewLimit, verdict.NewRequest, verdict.FreedCPUs, verdict.Burst, verdict.RecordingNeeded = nil, nil, 0, false, false
			}
			found.Rows = append(found.Rows, workloads.Row{Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Container: w.Container, Excluded: w.Excluded, Verdict: verdict})
		}
	}
	if noRequests && o.files == nil { // or it was said
		say(fmt.Sprintf("%s has no %s of any container: requests are unknown, and there is no advice on them", plan.Options.Source, metrics.Requests))
	}
	return nil
}

// forget takes back what follows from having no requests and no limits, if those of all containers are
// unknown.
func forget(found *workloads.Report, noRequests, noLimits bool) {
	for i := range found.Rows {
		v := &found.Rows[i].Verdict
		if noRequests {
			v.NewRequest, v.FreedCPUs = nil, 0
		}
		if noLimits && v.Finding == counters.Unlimited {
			v.Finding, v.Reason = counters.Unknown, "neither its limit nor its periods are known"
		}
	}
}

func printReport(w io.Writer, found *workloads.Report, format frame.Format, all bool) error {
	switch format {
	case frame.JSON:
		return frame.PrintJSON(w, found.JSON())
	case CSV:
		return found.CSV(w)
	}
	return found.Text(w, all)
}

// printPlan prints the queries.
func printPlan(w io.Writer, plan *metrics.Plan) error {
	var text strings.Builder
	r, containers := plan.Range(), 0
	for _, b := range plan.Batches {
		containers += b.Containers
		fmt.Fprintf(&text, "\n# %s of %s\n", quantity.Count(b.Containers, "container"), report.Printable(strings.Join(b.Namespaces, ", ")))
		for _, query := range plan.Queries(b) {
			fmt.Fprintln(&text, report.Printable(query))
		}
	}
	_, err := fmt.Fprintf(w, "# %s, each query with start=%s end=%s step=%v\n%s", quantity.Count(containers, "container"),
		r.Start.Format(time.RFC3339), r.End.Format(time.RFC3339), r.Step, text.String())
	return err
}
