package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/priority"
	"pinfold.dev/pinfold/linux/scx"
)

// Status is the outcome of one check.
type Status string

// The outcomes.
const (
	OK      Status = "ok"
	Note    Status = "note"
	Problem Status = "problem"
	Skipped Status = "skipped"
)

// Result is the result of one check.
type Result struct {
	Section string `json:"section"`
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Found   string `json:"found"`
	// Do is what to do about it, or "".
	Do string `json:"do,omitempty"`
}

// Options are the options of [Examine].
type Options struct {
	// Root is the directory at which the host's root directory is mounted.
	Root string
	// NRISocket and KubeletDir are paths on the host.
	NRISocket  string
	KubeletDir string
	// CgroupRoot is the kubelet's --cgroup-root; "" means what the kubelet, its agent or the groups say.
	CgroupRoot string
	// Cores is whether the kernel schedules cores: the result of [priority.CheckCores].
	Cores error
	// NoScheduler is why no scheduler for batch pods can be loaded: the result of [scx.Check].
	NoScheduler error
	// Cluster is nil if the API server is not to be asked.
	Cluster Cluster
}

// Defaults returns the options for most nodes.
func Defaults() Options {
	return Options{Root: "/", NRISocket: "/run/nri/nri.sock", KubeletDir: "/var/lib/kubelet", Cores: priority.CheckCores(),
		NoScheduler: scx.Check()}
}

// Cluster asks the API server and the kubelet about the node.
type Cluster interface {
	// Kubelet returns the policy of the CPU manager and the --cgroup-root that the kubelet has now.
	Kubelet(ctx context.Context) (policy, cgroupRoot string, err error)
	// Condition returns the condition that the node's agent has published, the zero value if none has.
	Condition(ctx context.Context) (corev1.NodeCondition, error)
	// Findings returns what the agent has published besides it.
	Findings(ctx context.Context) ([]nodetopology.Finding, error)
}

// Report is the results of all checks, in their order.
type Report []Result

// Count returns the number of results with the given status.
func (r Report) Count(status Status) (n int) {
	for _, one := range r {
		if one.Status == status {
			n++
		}
	}
	return n
}

// WriteText writes the report as text: a line for every check, and what to do about it below.
func (r Report) WriteText(w io.Writer) error {
	width := 0
	for _, one := range r {
		width = max(width, len(one.Check))
	}
	var b strings.Builder
	section := ""
	for _, one := range r {
		if one.Section != section {
			if section != "" {
				b.WriteString("\n")
			}
			section = one.Section
			fmt.Fprintln(&b, section)
		}
		fmt.Fprintf(&b, "  %-7s  %-*s  %s\n", one.Status, width, one.Check, one.Found)
		if one.Do != "" {
			fmt.Fprintf(&b, "  %-7s  %-*s  -> %s\n", "", width, "", one.Do)
		}
	}
	problems, notes := r.Count(Problem), r.Count(Note)
	switch {
	case problems > 0:
		fmt.Fprintf(&b, "\n%s: see the lines with ->\n", quantity.Count(problems, "problem"))
	case notes > 0:
		fmt.Fprintf(&b, "\nno problems, %s\n", quantity.Count(notes, "note"))
	default:
		b.WriteString("\nno problems\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// examination is one run of all checks.
type examination struct {
	Options
	report  Report
	section string
	groups  *cgroup.FS // nil if they cannot be used
	naming  kubepods.Naming
	sample  string // a cgroup with the files of the cpu controller, or ""
	// manager is the policy of the CPU manager, if the kubelet was asked and errKubelet is nil.
	manager    string
	errKubelet error
}

// Examine runs all checks.
func Examine(ctx context.Context, o Options) Report {
	x := &examination{Options: o}
	if root, err := filepath.Abs(o.Root); err == nil {
		x.Root = root // as it is in errors
	}
	if o.Cluster != nil {
		var root string
		x.manager, root, x.errKubelet = o.Cluster.Kubelet(ctx)
		x.CgroupRoot = cmp.Or(o.CgroupRoot, root)
	}
	for _, part := range []struct {
		section string
		checks  func(context.Context)
	}{
		{"control groups", x.controlGroups},
		{"kernel", x.kernel},
		{"machine", x.machine},
		{"kubelet", x.kubelet},
		{"container runtime", x.runtime},
		{"others", x.others},
		{"agent", x.agent},
	} {
		x.section = part.section
		part.checks(ctx)
	}
	return x.report
}

func (x *examination) add(check string, status Status, found, do string) {
	x.report = append(x.report, Result{Section: x.section, Check: check, Status: status, Found: found, Do: do})
}

func (x *examination) path(name string) string { return filepath.Join(x.Root, name) }

// read returns the text of a file without surrounding space, and whether the file exists.
func (x *examination) read(name string) (text string, found bool, err error) {
	data, err := os.ReadFile(x.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", name, errors.Unwrap(err))
	}
	return strings.TrimSpace(string(data)), true, nil
}

// list returns the names in a directory, or why they are not known.
func (x *examination) list(name string) (names []string, unknown string) {
	entries, err := os.ReadDir(x.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && !x.whole():
		return nil, name + " of the host is not mounted here"
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err.Error()
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, ""
}

// whole reports whether Root has all files of the host. The agent's container has but some.
func (x *examination) whole() bool {
	_, err := os.Stat(x.path("etc"))
	return err == nil
}
