package main

import (
	"slices"
	"testing"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

// TestKubeletSeesTheMachine compares what the kubelet makes of cAdvisor's words
// with the machine, and how it counts what a set of CPUs holds with how Quality
// does.
func TestKubeletSeesTheMachine(t *testing.T) {
	for _, mc := range machines() {
		t.Run(mc.name, func(t *testing.T) {
			m := mc.shape.MustBuild()
			k, err := newKubelet(m, variants()[0])
			if err != nil {
				t.Fatal(err)
			}
			kt := k.machine
			got := [...]int{kt.NumCPUs, kt.NumCores, kt.NumUncoreCache, kt.NumNUMANodes, kt.NumSockets}
			want := [...]int{len(m.CPUs), len(m.Cores()), len(m.LLCs()), len(m.NUMANodes), len(m.Packages())}
			if got != want {
				t.Fatalf("the kubelet counts %v CPUs, cores, LLCs, NUMA nodes, packages, want %v", got, want)
			}
			ix := placement.NewIndex(m)
			for _, free := range freeSets(m, byThread, 20) {
				q, held := ix.Quality(free), kt.CPUDetails.KeepOnly(toKube(free))
				split := 0
				for _, core := range held.Cores().List() {
					if held.CPUsInCores(core).Size() < kt.CPUsPerCore() {
						split++
					}
				}
				got := [...]int{q.NUMANodes, q.LLCs, q.Packages, q.SplitCores}
				want := [...]int{held.NUMANodes().Size(), held.UncoreCaches().Size(), held.Sockets().Size(), split}
				if got != want {
					t.Errorf("%v: Quality counts %v NUMA nodes, LLCs, packages, split cores; the kubelet %v", free, got, want)
				}
				if back := fromKube(toKube(free)); back != free {
					t.Errorf("%v came back as %v", free, back)
				}
			}
		})
	}
}

// TestFullCoresOnlyChoosesAlike shows why the kubelet's option full-pcpus-only is
// not compared: what it admits gets the same CPUs as without it.
func TestFullCoresOnlyChoosesAlike(t *testing.T) {
	m := topology.AMD256().MustBuild()
	plain := variants()[1]
	strict := plain
	strict.cpuOptions = map[string]string{cpumanager.FullPCPUsOnlyOption: "true"}
	var kubelets [2]*kubelet
	for i, v := range []variant{plain, strict} {
		k, err := newKubelet(m, v)
		if err != nil {
			t.Fatal(err)
		}
		kubelets[i] = k
	}
	for _, how := range scatters() {
		for _, free := range freeSets(m, how, 3) {
			want, err := ask(kubelets[0], free, 16)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ask(kubelets[1], free, 16)
			if err != nil {
				t.Fatal(err)
			}
			if got.cpus != want.cpus {
				t.Errorf("free %s, %v: with the option %v, without %v", how, free, got.cpus, want.cpus)
			}
		}
	}
	if a, err := ask(kubelets[1], m.Online(), 3); err == nil {
		t.Errorf("3 CPUs in whole cores of 2: the kubelet gave %v", a.cpus)
	}
}

// TestNeverWorseThanKubelet draws machines, free sets and kubelets.
func TestNeverWorseThanKubelet(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		v := rapid.SampledFrom(variants()).Draw(t, "variant")
		if v.topologyOptions[topologymanager.PreferClosestNUMANodes] != "" && !denseNodes(m) {
			return // the kubelet looks distances up by node number
		}
		k, err := newKubelet(m, v)
		if err != nil {
			return // a CPU without a NUMA node
		}
		free := topologytest.Subset(t, m.Online(), "free")
		if free.IsEmpty() {
			return
		}
		n := rapid.IntRange(1, free.Len()).Draw(t, "cpus")
		theirs, err := ask(k, free, n)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		ix := placement.NewIndex(m)
		ours, err := ask(pinfold{ix, 1}, free, n)
		if err != nil {
			t.Fatal(err)
		}
		compared++
		if judge(ix.Quality(ours.cpus), ix.Quality(theirs.cpus)) == better {
			t.Errorf("%d CPUs of %v: Pinfold %v %+v, %s %v %+v", n, free,
				ours.cpus, ix.Quality(ours.cpus), v.name, theirs.cpus, ix.Quality(theirs.cpus))
		}
	})
	if compared == 0 {
		t.Error("nothing was compared")
	}
	t.Log(compared)
}

// drawMachine draws a machine whose cores are of one kind: criterion 1 is not for
// the kubelet.
func drawMachine(t *rapid.T) *topology.Machine {
	if rapid.Bool().Draw(t, "regular") {
		return topologytest.RandomShape(t, 64).MustBuild()
	}
	m := topologytest.RandomUpTo(t, 24)
	for i := range m.CPUs {
		m.CPUs[i].Kind = ""
	}
	m.Kinds = []topology.Kind{""}
	return m
}

// denseNodes reports whether the NUMA nodes are numbered 0, 1, 2, ....
func denseNodes(m *topology.Machine) bool {
	return !slices.ContainsFunc(m.NUMANodes, func(n topology.NUMANode) bool { return m.NUMANodes[n.ID%topology.NUMAID(len(m.NUMANodes))].ID != n.ID })
}
