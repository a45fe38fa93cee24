package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pinfold.dev/pinfold/lab/localcluster"
)

// The scheduler is killed again and again while 100 pods are bound. Whatever it was
// doing, in the end all have CPUs and no CPU belongs to two.
func TestSchedulerKilledWhileBinding(t *testing.T) {
	c := begin(t)
	const pods, kills = 100, 4
	random := rand.New(rand.NewPCG(1, 2))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range pods {
			// 1 to 3 CPUs, 200 on average, of the 376 there are.
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

// schedulerReady waits until a scheduler runs again, because the supervisor gives up
// on what ends many times in a row.
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
