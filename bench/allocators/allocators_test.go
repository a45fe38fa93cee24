package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/internal/command"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// smallHost returns a host with 15 and 16 CPUs for pods.
func smallHost(t *testing.T) *host {
	return must.Get(newHost(topology.Shape{Packages: 2, LLCsPerNUMA: 2, CoresPerLLC: 4, ThreadsPerCore: 2}))(t)
}

// TestOutput compares all systems on a small machine.
func TestOutput(t *testing.T) {
	h := smallHost(t)
	text := ""
	for _, mx := range mixes(h) {
		c := comparison{machine: "32 CPUs, 2 NUMA nodes, 4 LLCs", host: h, mix: mx, nodes: 3, pods: 30, seeds: 2, systems: systems()}
		text += must.Get(c.table(t.Context()))(t)
	}
	golden.Compare(t, "testdata/output.markdown", text)
}

// TestDocument compares Pinfold's rows of the last table of results.md with current results. The
// other rows take minutes: run the command.
func TestDocument(t *testing.T) {
	text := string(must.Get(os.ReadFile("results.md"))(t))
	m := machines()[2]
	h := must.Get(newHost(m.shape))(t)
	all := systems()
	c := comparison{machine: m.name, host: h, mix: mixes(h)[2], nodes: 8, pods: 1000, seeds: 10, systems: all[len(all)-2:]}
	_, section, found := strings.Cut(text, c.title())
	if !found {
		t.Fatalf("results.md has no table %q", c.title())
	}
	for line := range strings.Lines(must.Get(c.table(t.Context()))(t)) {
		if strings.HasPrefix(line, "| ") && !strings.Contains(section, line) {
			t.Errorf("results.md lacks the line %s", line)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"-seeds", "1"}, {"-seeds", "many"}, {"now"}, {"-fast"}} {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), args, &stdout, &stderr)
		if !errors.Is(err, command.ErrUsage) || stdout.Len() > 0 {
			t.Errorf("%q: error %v and output %q, want wrong usage and none", args, err, stdout.String())
		}
	}
}

// TestWorkload checks that the pods ask for 87.5% of the CPUs when they are counted, and never for
// more.
func TestWorkload(t *testing.T) {
	const capacity = 400
	mx := mix{"mixed", 1, 16}
	live, used, counted := map[int]int{}, 0, 0
	for _, e := range workload(rand.New(rand.NewPCG(1, 0)), mx, capacity, 1000) {
		if e.ends {
			if live[e.pod] != e.cpus {
				t.Fatalf("pod %d ends with %d CPUs, and came with %d", e.pod, e.cpus, live[e.pod])
			}
			delete(live, e.pod)
			used -= e.cpus
			continue
		}
		live[e.pod] = e.cpus
		used += e.cpus
		if used > 350 || e.counted && used <= 350-mx.most {
			t.Fatalf("%d of 350 CPUs when pod %d has come (counted: %v)", used, e.pod, e.counted)
		}
		if e.counted {
			counted++
		}
	}
	if counted != 1000 {
		t.Errorf("%d pods are counted, want 1000", counted)
	}
}

// TestDevices shows that kube-scheduler takes CPUs of the first device that has enough, in the order
// in which they are published.
func TestDevices(t *testing.T) {
	d := newDevices(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, smallHost(t))
	var got []int
	for _, n := range []int{13, 2, 1, 14, 2, 1} {
		at := must.Get(d.allocate(t.Context(), n))(t)
		got = append(got, at)
		if at >= 0 {
			d.consumed.Insert(d.share(at, n))
		}
	}
	if want := []int{0, 1, 0, 1, -1, -1}; !slices.Equal(got, want) {
		t.Errorf("devices %v, want %v", got, want)
	}
	d.consumed.Remove(d.share(0, 1))
	if at := must.Get(d.allocate(t.Context(), 1))(t); at != 0 {
		t.Errorf("device %d, want 0, of which a CPU is free again", at)
	}
	d.consumed.Remove(d.share(1, 2))
	d.sort(d.devices[1].CPUs)
	if at := must.Get(d.allocate(t.Context(), 1))(t); at != 1 {
		t.Errorf("device %d, want 1, which is published first", at)
	}
}
