package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// sampleEvery is the pause between two samples.
const sampleEvery = 20 * time.Millisecond

// sampler compares the CPUs that each thread of each container may use with the exclusive CPUs of
// containers.
//
// It needs no clock. The agent restricts containers that lose CPUs before it extends those that
// receive them. So once a container runs on exactly its own CPUs, no other may use them. If that is
// the case before and after the other containers were read, it was the case at that time. And a pod
// that still has its CPUs afterwards, according to the API server, had them before, because it
// cannot get them back once it has given them up.
//
// A container is judged after the first sample in which it does not use the CPUs of others. Until
// then it is starting: the runtime creates it before the agent sees it if the agent is down or
// slower than the runtime waits.
type sampler struct {
	*testing.T
	client     kubernetes.Interface
	topologies nodetopology.Client
	kernel     kernel

	judged   map[string]bool      // groups
	starting map[string]time.Time // cgroups that have used others' CPUs since their start
	logged   map[string]bool

	samples, compared int
	longest           time.Duration // time until a cgroup could be judged
	violations        []string
}

func newSampler(t *testing.T, client kubernetes.Interface, topologies nodetopology.Client) *sampler {
	return &sampler{T: t, client: client, topologies: topologies, kernel: openKernel(t), judged: map[string]bool{}, starting: map[string]time.Time{}, logged: map[string]bool{}}
}

func (s *sampler) String() string {
	return fmt.Sprintf("%d samples, %d comparisons of a group with another's CPUs; started on another's CPUs for %v at most",
		s.samples, s.compared, s.longest.Round(time.Millisecond))
}

func (s *sampler) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.sample(ctx)
		time.Sleep(sampleEvery)
	}
}

// owner is a container with exclusive CPUs.
type owner struct {
	pod   *corev1.Pod
	group string
	cpus  cpuset.Set
}

// stillOwns reports whether a pod has its CPUs after the agent has had time to publish what it has
// allocated: a second, but it may wait for a CPU, or just have been killed.
func (s *sampler) stillOwns(ctx context.Context, o owner) bool {
	for looks := 5; looks > 0 && s.owns(ctx, o); looks-- {
		time.Sleep(2 * time.Second)
	}
	return s.owns(ctx, o)
}

// owners returns the owners according to the API server, none while that does not answer.
func (s *sampler) owners(ctx context.Context) (all []owner) {
	pods, err := s.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0",
		FieldSelector: "spec.nodeName=" + localnode.Name})
	if err != nil {
		return nil
	}
	published, err := s.published(ctx)
	if err != nil {
		return nil
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, container := range containersOf(pod, published) {
			if group := s.kernel.containerGroup(pod, container.Name); group != "" && !container.CPUs.IsEmpty() {
				all = append(all, owner{pod, group, container.CPUs})
			}
		}
	}
	return all
}

// published returns the allocations that the agent has published.
func (s *sampler) published(ctx context.Context) (api.Allocations, error) {
	object, err := s.topologies.Get(ctx, localnode.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	_, state, err := nodetopology.ToMachine(object)
	return state.Allocations, err
}

// containersOf returns what is allocated to a pod, nothing if it asks for something else meanwhile.
func containersOf(pod *corev1.Pod, published api.Allocations) []api.ContainerAllocation {
	if _, a, err := published.Claim(pod, nil); a != nil && err == nil {
		return a.Containers
	}
	return nil
}

// allocated returns the exclusive CPUs that the agent has published for a pod, once it has.
func (c *cluster) allocated(t *testing.T, pod *corev1.Pod) (cpus cpuset.Set) {
	t.Helper()
	s := &sampler{topologies: must.Get(apiclient.New(connection(t, filepath.Join(c.dir, "kubeconfig"))))(t)}
	eventually(t, "the agent publishes what it allocates", func() error {
		published, err := s.published(t.Context())
		if cpus = published[pod.UID].CPUs(); err == nil && cpus.IsEmpty() {
			err = fmt.Errorf("pod %s has none of %+v", pod.Name, published)
		}
		return err
	})
	return cpus
}

// sample compares all cgroups with all owners once.
func (s *sampler) sample(ctx context.Context) {
	s.samples++
	var enforced []owner
	for _, o := range s.owners(ctx) {
		if s.allowed(o.group) == o.cpus {
			enforced = append(enforced, o)
		}
	}
	groups := s.groups()
	seen := map[string]cpuset.Set{}
	for _, group := range groups {
		seen[group] = s.allowed(group)
	}
	for _, o := range enforced {
		if s.allowed(o.group) != o.cpus {
			continue
		}
		for _, group := range groups {
			if group != o.group && !seen[group].IsEmpty() {
				s.compare(ctx, o, group, seen[group])
			}
		}
	}
}

func (s *sampler) compare(ctx context.Context, o owner, group string, allowed cpuset.Set) {
	s.compared++
	both := allowed.Intersection(o.cpus)
	switch began, starting := s.starting[group]; {
	case both.IsEmpty():
		if starting {
			s.longest = max(s.longest, time.Since(began))
			delete(s.starting, group)
		}
		s.judged[group] = true
	case !s.judged[group] && !starting:
		s.starting[group] = time.Now()
	case s.judged[group] && s.stillOwns(ctx, o):
		text := fmt.Sprintf("threads of %s may run on %s, of which %s are those of pod %s/%s alone (%s)",
			group, allowed, both, o.pod.Namespace, o.pod.Name, o.group)
		if !s.logged[group+o.group] {
			s.logged[group+o.group] = true
			s.violations = append(s.violations, time.Now().Format("15:04:05.000 ")+text)
		}
	}
}

// owns asks the API server whether a pod has its CPUs now.
func (s *sampler) owns(ctx context.Context, o owner) bool {
	published, err := s.published(ctx)
	if err != nil {
		return false
	}
	pod, err := s.client.CoreV1().Pods(o.pod.Namespace).Get(ctx, o.pod.Name, metav1.GetOptions{})
	if err != nil || pod.UID != o.pod.UID || pod.DeletionTimestamp != nil || s.kernel.containerGroup(pod, "a") != s.kernel.containerGroup(o.pod, "a") {
		return false
	}
	return slices.ContainsFunc(containersOf(pod, published), func(c api.ContainerAllocation) bool { return c.CPUs == o.cpus })
}

// groups returns the cgroups of all containers, including sandboxes.
func (s *sampler) groups() (all []string) {
	pods, err := s.kernel.naming.Pods(s.kernel.groups)
	if err != nil {
		return nil // it is changing
	}
	for _, pod := range pods {
		for _, container := range pod.Containers {
			all = append(all, container.Path)
		}
	}
	return all
}

// allowed returns the CPUs that any thread of a cgroup may use, none if it was removed.
func (s *sampler) allowed(group string) (cpus cpuset.Set) {
	threads, err := cgrouptree.Threads(s.kernel.groups, group)
	if err != nil {
		return cpus
	}
	for _, thread := range threads {
		if of, err := allowedCPUs(thread); err == nil { // else it has ended
			cpus = cpus.Union(of)
		}
	}
	return cpus
}

// settled returns an error while the kernel's settings differ from the API server's allocations.
func (s *sampler) settled() error {
	owners := s.owners(s.Context())
	for _, o := range owners {
		if got := s.allowed(o.group); got != o.cpus {
			return fmt.Errorf("pod %s/%s may run on %s, want %s", o.pod.Namespace, o.pod.Name, got, o.cpus)
		}
		if err := s.kernel.expectNobodyElseOn(o.cpus, o.group); err != nil {
			return err
		}
	}
	return nil
}

func online(t *testing.T) cpuset.Set {
	t.Helper()
	m := must.Get(sysfs.Read(os.DirFS("/sys")))(t)
	return m.Online()
}
