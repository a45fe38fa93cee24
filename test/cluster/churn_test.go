package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

// TestChurn: hundreds of pods of all kinds are created, end, are deleted or stop asking for CPUs in
// random order, while the scheduler is killed from time to time. At every moment no CPU belongs to
// two pods, and no node is overcommitted.
func TestChurn(t *testing.T) {
	const lasting, killEvery, lookEvery = 10 * time.Second, 4 * time.Second, 200 * time.Millisecond
	const enough = 60 // minimum number of pods with exclusive CPUs at one time
	c := begin(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	for worker := range 3 {
		churn := churner{test: c, name: fmt.Sprint("w", worker), random: rand.New(rand.NewPCG(7, uint64(worker)))}
		work.Go(func() { churn.run(ctx) })
	}
	work.Go(func() {
		for kill := time.Tick(killEvery); ; {
			select {
			case <-kill:
				c.killScheduler()
			case <-ctx.Done():
				return
			}
		}
	})
	nodes, most := map[string]*bookedNode{}, 0
	begun := time.Now()
	for time.Since(begun) < lasting || most < enough && time.Since(begun) < lasting+patience { // a busy machine takes longer
		most = max(most, c.look(nodes))
		time.Sleep(lookEvery)
	}
	cancel()
	work.Wait()
	c.schedulerReady()
	c.look(nodes)
	t.Logf("at most %d pods had exclusive CPUs at one time", most)
	if most < enough {
		t.Errorf("at most %d pods had exclusive CPUs at one time, want %d", most, enough)
	}
}

// churner creates and deletes pods, about 40 at a time.
type churner struct {
	*test
	name   string
	random *rand.Rand
	pods   []string
	made   int
}

func (c *churner) run(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if len(c.pods) < 40 || c.random.IntN(2) == 0 && len(c.pods) < 50 {
			c.add(ctx)
			continue
		}
		at := c.random.IntN(len(c.pods))
		name := c.pods[at]
		switch c.random.IntN(10) {
		case 0: // it ends and remains for a while
			if err := c.end(ctx, name); !apierrors.IsInvalid(err) {
				c.check(ctx, err)
			}
		case 1:
			c.patch(ctx, name, `{"metadata":{"annotations":{"cpuset-scheduler":null}}}`)
		default:
			c.pods = append(c.pods[:at], c.pods[at+1:]...)
			grace := int64(c.random.IntN(2))
			c.check(ctx, c.client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
		}
	}
}

func (c *churner) patch(ctx context.Context, pod, text string, subresource ...string) {
	_, err := c.client.CoreV1().Pods("default").Patch(ctx, pod, types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresource...)
	c.check(ctx, err)
}

// check ignores errors that the end of the test, the ends of other pods and a slow API server
// cause.
func (c *churner) check(ctx context.Context, err error) {
	late := apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
	if err != nil && ctx.Err() == nil && !late && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		c.Error(err)
	}
}

// churnPods are the kinds of pods. %d is a number of CPUs.
var churnPods = []string{
	`{containers: [{name: a, image: a, resources: {requests: {cpu: 100m}, limits: {cpu: %d}}}]}`,
	`{containers: [{name: a, image: a, resources: {limits: {cpu: %d}}}]}`,
	`{containers: [{name: a, image: a, resources: {requests: {cpu: 200m}, limits: {cpu: %d}}},
                  {name: b, image: b, resources: {requests: {cpu: 300m}, limits: {cpu: 1500m}}}]}`,
	`{initContainers: [{name: i, image: i, resources: {limits: {cpu: 6}}},
                      {name: s, image: s, restartPolicy: Always, resources: {requests: {cpu: 50m}, limits: {cpu: 1}}},
                      {name: j, image: j, resources: {requests: {cpu: 700m}}}],
     containers: [{name: a, image: a, resources: {requests: {cpu: 200m}, limits: {cpu: %d}}}]}`,
}

func (c *churner) add(ctx context.Context) {
	c.made++
	name := fmt.Sprintf("%s-%d", c.name, c.made)
	words := []string{`{cpuset-scheduler: "true"}`, `{cpuset-scheduler: "true"}`, `{cpuset-scheduler: "true", cpu-policy: static-burst}`,
		`{cpuset-scheduler: "true", pinfold.dev/full-cores: required}`, `{}`}
	spec := fmt.Sprintf(churnPods[c.random.IntN(len(churnPods))], 1+c.random.IntN(9))
	text := fmt.Sprintf("metadata: {name: %s, annotations: %s}\nspec: %s\n", name, words[c.random.IntN(len(words))], spec)
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
		c.Error(err)
		return
	}
	_, err := c.client.CoreV1().Pods("default").Create(ctx, &pod, metav1.CreateOptions{})
	c.check(ctx, err)
	c.pods = append(c.pods, name)
}

// bookedNode is the state of a node at one moment.
type bookedNode struct {
	machine *topology.Machine
	config  ledger.Config
	claims  []ledger.Claim
	owners  map[cpuset.CPU]string
}

// look checks all nodes at one moment and returns how many pods have exclusive CPUs then. A list is
// a consistent snapshot.
func (c *test) look(nodes map[string]*bookedNode) (placed int) {
	c.Helper()
	pods := c.pods()
	for _, node := range nodes {
		node.claims, node.owners = nil, map[cpuset.CPU]string{}
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" {
			continue
		}
		node := nodes[pod.Spec.NodeName]
		if node == nil {
			machine, state := c.machine(pod.Spec.NodeName)
			node = &bookedNode{machine: machine, owners: map[cpuset.CPU]string{},
				config: ledger.Config{ReservedCPUs: state.ReservedCPUs, MinShared: 1}}
			nodes[pod.Spec.NodeName] = node
		}
		claim, err := api.Claim(pod, node.machine)
		if err != nil {
			c.Errorf("pod %s on %s: %v", pod.Name, pod.Spec.NodeName, err)
		}
		if len(claim.Containers) > 0 {
			placed++
		}
		node.claims = append(node.claims, claim)
		for _, container := range claim.Containers {
			for cpu := range container.CPUs.All() {
				if owner := node.owners[cpu]; owner != "" && owner != pod.Name {
					c.Errorf("CPU %d of %s belongs to pods %s and %s", cpu, pod.Spec.NodeName, owner, pod.Name)
				}
				node.owners[cpu] = pod.Name
			}
		}
	}
	for name, node := range nodes {
		books := ledger.New(placement.NewIndex(node.machine), node.config, node.claims...)
		for _, conflict := range books.Conflicts() {
			c.Errorf("node %s: %s", name, conflict)
		}
		for _, overflow := range books.Overflow() {
			c.Errorf("node %s: %s", name, overflow)
		}
	}
	return placed
}
