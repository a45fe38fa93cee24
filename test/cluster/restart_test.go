package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pinfold.dev/pinfold/lab/localcluster"
)

// TestSchedulerKilledWhileBinding: the scheduler is killed repeatedly while 100 pods are bound. In
// the end all have CPUs, and no CPU belongs to two pods.
func TestSchedulerKilledWhileBinding(t *testing.T) {
	c := begin(t)
	const pods, kills = 100, 4
	random := rand.New(rand.NewPCG(1, 2))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range pods {
			// 1 to 3 CPUs each, 200 in total on average, of 376.
			c.create(fmt.Sprintf(`
metadata: {name: p%d, annotations: {cpuset-scheduler: "true"}}
spec:
  containers:
  - {name: app, image: app, resources: {requests: {cpu: 100m}, limits: {cpu: %d}}}
`, i, 1+i%3))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	for range kills {
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		c.killScheduler()
		c.schedulerReady()
	}
	<-done
	for _, pod := range c.allBound(pods) {
		c.allocation(&pod)
	}
	c.checkBooks()
}

// schedulerReady waits until a scheduler runs again, because the supervisor gives up on a process
// that ends many times in a row.
func (c *test) schedulerReady() {
	c.Helper()
	c.eventually(func() string {
		state, err := localcluster.ReadState(c.dir)
		if err != nil {
			return err.Error()
		}
		if scheduler, _ := state.Component("kube-scheduler"); scheduler.State != "ready" {
			return fmt.Sprintf("the scheduler is %s", scheduler.State)
		}
		return ""
	})
}
