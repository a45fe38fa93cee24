package main

import (
	"testing"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/bench/internal/kubelet"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/test/must"
)

// TestKubeletSeesTheMachine compares what the kubelet derives from cAdvisor's types with the
// machine, and its counts for a set of CPUs with those of Quality.
func TestKubeletSeesTheMachine(t *testing.T) {
	for _, mc := range machines() {
		t.Run(mc.name, func(t *testing.T) {
			m := mc.shape.MustBuild()
			k := must.Get(kubelet.New(m, cpuset.Set{}, kubelet.Variants()[0]))(t)
			kt := k.Machine
			got := [...]int{kt.NumCPUs, kt.NumCores, kt.NumUncoreCache, kt.NumNUMANodes, kt.NumSockets}
			want := [...]int{len(m.CPUs), len(m.Cores()), len(m.LLCs()), len(m.NUMANodes), len(m.Packages())}
			if got != want {
				t.Fatalf("the kubelet counts %v CPUs, cores, LLCs, NUMA nodes, packages, want %v", got, want)
			}
			ix := placement.NewIndex(m)
			for _, free := range freeSets(m, byThread, 20) {
				q, held := ix.Quality(free), kt.CPUDetails.KeepOnly(kubelet.ToKube(free))
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
				if back := kubelet.FromKube(kubelet.ToKube(free)); back != free {
					t.Errorf("%v came back as %v", free, back)
				}
			}
		})
	}
}

// TestFullCoresOnlyChoosesAlike shows why the kubelet's option full-pcpus-only is not compared:
// pods that it admits get the same CPUs as without it.
func TestFullCoresOnlyChoosesAlike(t *testing.T) {
	m := topology.AMD256().MustBuild()
	plain := kubelet.Variants()[1]
	strict := plain
	strict.CPUOptions = map[string]string{cpumanager.FullPCPUsOnlyOption: "true"}
	var kubelets [2]chooser
	for i, v := range []kubelet.Variant{plain, strict} {
		k := must.Get(newKubelet(m, v))(t)
		kubelets[i] = k
	}
	for _, how := range scatters() {
		for _, free := range freeSets(m, how, 3) {
			want := must.Get(kubelets[0].ask(free, 16))(t)
			got := must.Get(kubelets[1].ask(free, 16))(t)
			if got.cpus != want.cpus {
				t.Errorf("free %s, %v: with the option %v, without %v", how, free, got.cpus, want.cpus)
			}
		}
	}
	if a, err := kubelets[1].ask(m.Online(), 3); err == nil {
		t.Errorf("3 CPUs in whole cores of 2: the kubelet gave %v", a.cpus)
	}
}

// TestNeverWorseThanKubelet draws regular machines of up to 64 CPUs, kubelets and questions.
func TestNeverWorseThanKubelet(t *testing.T) {
	compared, worse := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		shape := topologytest.RandomShape(t, 64)
		shape.NearDistance = rapid.IntRange(11, 40).Draw(t, "nearDistance")
		shape.FarDistance = rapid.IntRange(11, 40).Draw(t, "farDistance")
		m := shape.MustBuild()
		v := rapid.SampledFrom(kubelet.Variants()).Draw(t, "variant")
		k, err := newKubelet(m, v)
		if len(m.NUMANodes) > 8 && v.TopologyPolicy != topologymanager.PolicyNone {
			if err == nil {
				t.Fatalf("the topology manager takes %d NUMA nodes: compare them, too", len(m.NUMANodes))
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		ix := placement.NewIndex(m)
		for range 10 {
			free := topologytest.Subset(t, m.Online(), "free")
			if free.IsEmpty() {
				continue
			}
			n := rapid.IntRange(1, free.Len()).Draw(t, "cpus")
			theirs, err := k.ask(free, n)
			if err != nil {
				t.Fatalf("%s: %v", v.Name, err)
			}
			ours := must.Get(pinfold(ix, 1).ask(free, n))(t)
			compared++
			switch judge(ix.Quality(ours.cpus), ix.Quality(theirs.cpus)) {
			case asGood:
			case better:
				t.Errorf("%d CPUs of %v: Pinfold %v %+v, %s %v %+v", n, free,
					ours.cpus, ix.Quality(ours.cpus), v.Name, theirs.cpus, ix.Quality(theirs.cpus))
			default:
				worse++
			}
		}
	})
	if worse == 0 {
		t.Errorf("no kubelet was worse in %d questions: the questions are too easy", compared)
	}
}

// TestKubeletOnUnevenCores shows why only regular machines are compared. The kubelet computes the
// threads per core as CPUs / cores. If cores differ, it may take a half-free core for a free one
// and give away the half that is taken. Pinfold does not.
func TestKubeletOnUnevenCores(t *testing.T) {
	m := &topology.Machine{Kinds: []topology.Kind{topology.KindPerformance, topology.KindEfficiency}}
	for cpu, core := range []topology.CoreID{0, 0, 1, 2, 3} {
		kind := topology.KindEfficiency
		if core == 0 {
			kind = topology.KindPerformance
		}
		m.CPUs = append(m.CPUs, topology.CPU{ID: cpuset.CPU(cpu), Core: core, Kind: kind})
	}
	m.NUMANodes = []topology.NUMANode{{CPUs: m.Online(), LocalCPUs: m.Online(), Distances: []int{topology.LocalDistance}}}
	must.Do(t, m.Validate())
	k := must.Get(newKubelet(m, kubelet.Variants()[0]))(t)
	free := cpuset.Of(1, 4) // CPU 0, on the core of CPU 1, is taken
	if a, err := k(free, 2); err != nil || a.cpus != cpuset.Of(0, 1) {
		t.Errorf("the kubelet gives %v of %v (error %v), not 0-1 as it did: compare uneven machines, too", a.cpus, free, err)
	}
	if a, err := pinfold(placement.NewIndex(m), 1).ask(free, 2); err != nil || a.cpus != free {
		t.Errorf("Pinfold gives %v of %v (error %v)", a.cpus, free, err)
	}
}
