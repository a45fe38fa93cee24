package cluster

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/prometheus"
	"pinfold.dev/pinfold/report"
)

// contentionOptions are those of "why --cluster".
type contentionOptions struct {
	cluster bool
	since   time.Duration
	server  prometheus.Server
	html    string // the file of the page, "" for none
	replace bool
}

func (o *contentionOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.cluster, "cluster", false, "show which workloads wait for CPUs behind which, from the metrics of the agents (--prometheus)")
	prometheus.SinceFlag(cmd, &o.since, time.Hour, "with --cluster: on average over this TIME, such as 24h or 7d")
	f.StringVar(&o.html, "html", "", "with --cluster: also draw a map of that to `FILE`")
	o.server.AddFlags(cmd)
}

// contention is who waited for CPUs, and behind whom.
type contention struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Nodes   int       `json:"nodes"`   // that were asked
	Sampled int       `json:"sampled"` // those whose agents sample
	CPUs    float64   `json:"cpus"`    // of all containers, in CPU seconds per second
	Pairs   []pair    `json:"pairs"`   // the heaviest first
}

// pair is for how long a workload waited behind another.
type pair struct {
	Namespace       string  `json:"namespace"`
	Workload        string  `json:"workload"`
	BehindNamespace string  `json:"behindNamespace,omitempty"`
	Behind          string  `json:"behind"`
	CPUs            float64 `json:"cpus"` // CPU seconds per second
}

func (p *pair) waits() string { return report.Printable(p.Namespace + "/" + p.Workload) }
func (p *pair) behind() string {
	if p.BehindNamespace == "" {
		return report.Printable(p.Behind)
	}
	return report.Printable(p.BehindNamespace + "/" + p.Behind)
}

// run asks the server, and prints the answer.
func (o *contentionOptions) run(ctx context.Context, out io.Writer, format frame.Format, namespace string) error {
	if o.since < 5*time.Minute {
		return frame.Usagef("--since %v: it must be 5m or more, for rates of counters", o.since)
	}
	client, err := o.server.Connect()
	if err != nil {
		return err
	}
	all, err := o.ask(ctx, client, namespace, time.Now())
	if err != nil {
		return err
	}
	if o.html != "" {
		page, err := all.page()
		if err == nil {
			err = frame.SuggestForce(frame.WriteFile(o.html, page, o.replace))
		}
		if err != nil {
			return err
		}
	}
	if format == frame.JSON {
		return frame.PrintJSON(out, all)
	}
	return all.print(out)
}

// ask asks for the state at a time.
func (o *contentionOptions) ask(ctx context.Context, client *prometheus.Client, namespace string, at time.Time) (*contention, error) {
	all := &contention{From: at.Add(-o.since), To: at, Pairs: []pair{}}
	over := fmt.Sprintf("[%ds]", int64(o.since/time.Second))
	selector := ""
	if namespace != "" {
		selector = "namespace=" + strconv.Quote(namespace)
	}
	// Agents that are told not to sample have the other metric only.
	nodes, err := client.Query(ctx, "pinfold_contention_running or on (instance) 0 * pinfold_holding", at)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		all.Nodes++
		if node.Value == 1 {
			all.Sampled++
		}
	}
	switch {
	case all.Nodes == 0:
		return nil, errors.New("the server has no metric pinfold_contention_running: does it scrape the agents (docs/monitoring.md), and are they of this version?")
	case all.Sampled == 0:
		return nil, fmt.Errorf("none of %d agents samples who waits for CPUs: their logs say why, or agent.contention is false", all.Nodes)
	}
	total, err := client.Query(ctx, `sum(rate(pinfold_container_cpu_waiting_seconds_total{behind="others",`+selector+"}"+over+"))", at)
	if err != nil {
		return nil, err
	}
	for _, sample := range total {
		all.CPUs += finite(sample.Value)
	}
	pairs, err := client.Query(ctx, "sum by (namespace, workload, behind_namespace, behind) (rate(pinfold_contention_pair_seconds_total{"+selector+"}"+over+")) > 0", at)
	if err != nil {
		return nil, err
	}
	for _, sample := range pairs {
		label := func(name model.LabelName) string { return string(sample.Metric[name]) }
		if cpus := finite(sample.Value); cpus > 0 {
			all.Pairs = append(all.Pairs, pair{label("namespace"), label("workload"), label("behind_namespace"), label("behind"), cpus})
		}
	}
	slices.SortFunc(all.Pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.waits(), b.waits()), cmp.Compare(a.behind(), b.behind()))
	})
	return all, nil
}

func finite(v model.SampleValue) float64 {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return 0
	}
	return float64(v)
}

// mostRows is how many pairs are printed.
const mostRows = 30

func (all *contention) print(out io.Writer) error {
	w := bufio.NewWriter(out)
	if err := all.sentence(w); err != nil {
		return err
	}
	if len(all.Pairs) == 0 {
		return report.Flush(w, "print the answer")
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CPUS\tWAITS\tBEHIND")
	victims, culprits := map[string]float64{}, map[string]float64{}
	for i := range all.Pairs {
		p := &all.Pairs[i]
		victims[p.waits()] += p.CPUs
		culprits[p.behind()] += p.CPUs
		if i < mostRows {
			fmt.Fprintf(table, "%.3f\t%s\t%s\n", p.CPUs, p.waits(), p.behind())
		}
	}
	_ = table.Flush() // w keeps the error
	if more := len(all.Pairs) - mostRows; more > 0 {
		fmt.Fprintf(w, "and %d more pairs (-o json)\n", more)
	}
	fmt.Fprintf(w, "\nWaits most: %s.\nMost is waited behind: %s.\n", most(victims), most(culprits))
	return report.Flush(w, "print the answer")
}

// sentence writes what is measured, and how much it is in all.
func (all *contention) sentence(w io.Writer) error {
	_, err := fmt.Fprintf(w, "CPU seconds per second that containers waited behind others, from %s to %s,\non %d of %d nodes: %.3g in all, without what they waited for their own limits.\n",
		all.From.UTC().Format("2006-01-02 15:04"), all.To.UTC().Format("2006-01-02 15:04 UTC"), all.Sampled, all.Nodes, all.CPUs)
	return err
}

// most returns the name with the largest value.
func most(all map[string]float64) string {
	best := ""
	for name, value := range all {
		if best == "" || value > all[best] || value == all[best] && name < best {
			best = name
		}
	}
	return fmt.Sprintf("%s (%.3f)", best, all[best])
}
