package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
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

// Result is one line of the report.
type Result struct {
	Section string `json:"section"`
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Found   string `json:"found"`
	// Do says what to do, "" when there is nothing to do.
	Do string `json:"do,omitempty"`
}

// Options say where to look.
type Options struct {
	// Root is the root directory of the host, "/" on it.
	Root string
	// NRISocket and KubeletDir are paths on the host.
	NRISocket  string
	KubeletDir string
	// CgroupRoot is the kubelet's --cgroup-root.
	CgroupRoot string
	// Cluster is nil when the API server is not asked.
	Cluster Cluster
}

// Defaults are where things are on most nodes.
func Defaults() Options {
	return Options{Root: "/", NRISocket: "/var/run/nri/nri.sock", KubeletDir: "/var/lib/kubelet"}
}

// Cluster is what the API server and the kubelet can be asked.
type Cluster interface {
	// CPUManagerPolicy is that of the kubelet's present configuration.
	CPUManagerPolicy(ctx context.Context) (string, error)
	// TopologyWriter says who wrote the node's NodeResourceTopology: "" when there is
	// none, and whether it was Pinfold.
	TopologyWriter(ctx context.Context) (writer string, ours bool, err error)
}

// Report is all that was found, in the order of the checks.
type Report []Result

// Problems counts the problems.
func (r Report) Problems() (n int) {
	for _, one := range r {
		if one.Status == Problem {
			n++
		}
	}
	return n
}

// examination is one run of all checks.
type examination struct {
	Options
	report  Report
	section string
	groups  *cgroup.FS // nil when they cannot be used
	naming  kubepods.Naming
	sample  string // a group that has the files of the cpu controller; "" for none
}

// Examine makes all checks.
func Examine(ctx context.Context, o Options) Report {
	x := &examination{Options: o}
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

// read returns a file's text without the space around it, and whether it is there.
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

// list returns the names in a directory; none when it is not there.
func (x *examination) list(name string) []string {
	entries, err := os.ReadDir(x.path(name))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}
