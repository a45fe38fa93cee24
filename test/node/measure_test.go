package node

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/local/load"
)

// server is a pod that answers requests.
type server struct {
	name, url string
	groups    []string      // the cgroups of container and pod
	quota     time.Duration // of its limit; 0 without one
}

// served is what a server did while it got requests.
type served struct {
	load load.Result
	// The kernel's counters meanwhile, of the cgroup that was throttled more.
	throttled, periods uint64
	used               float64 // share of the limit
}

// serverOf returns the first container of a running pod, asked for cpu of CPU time with each
// request.
func (k kernel) serverOf(pod *corev1.Pod, cpu time.Duration) server {
	container, port := pod.Spec.Containers[0], int32(80)
	if len(container.Ports) > 0 {
		port = container.Ports[0].ContainerPort
	}
	address := url.URL{Scheme: "http", Host: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))), Path: "/",
		RawQuery: url.Values{"cpu": {cpu.String()}}.Encode()}
	limit := container.Resources.Limits[corev1.ResourceCPU]
	return server{pod.Name, address.String(), []string{k.containerGroup(pod, container.Name), k.podGroup(pod)},
		time.Duration(limit.MilliValue()) * 100 * time.Millisecond / 1000}
}

// ask sends requests to all servers at the same time, with their batches spread over the interval,
// and logs what they did.
func (k kernel) ask(t *testing.T, servers []server, plan load.Plan) []served {
	t.Helper()
	all := make([]served, len(servers))
	var group sync.WaitGroup
	for i, s := range servers {
		group.Go(func() {
			sleep.For(t.Context(), time.Duration(i)*plan.Every/time.Duration(len(servers)))
			var err error
			if all[i], err = k.askOne(t, s, plan); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		})
	}
	group.Wait()
	for i, s := range all {
		t.Logf("%s: %d requests, mean %v, p99 %v, throttled in %d of %d periods, used %.0f%% of the limit", servers[i].name, s.load.Sent,
			s.load.Mean(), s.load.Quantile(0.99), s.throttled, s.periods, 100*s.used)
	}
	return all
}

func (k kernel) askOne(t *testing.T, s server, plan load.Plan) (done served, err error) {
	sender, err := load.NewHTTP(s.url)
	if err != nil {
		return done, err
	}
	defer sender.Close()
	var before []cgroupstat.Stat
	for _, group := range s.groups {
		stat, err := cgroupstat.Read(k.groups, group)
		if err != nil {
			return done, err
		}
		before = append(before, stat)
	}
	began := time.Now()
	if done.load, err = load.Run(t.Context(), plan, sender.Send); err != nil {
		return done, err
	}
	sleep.For(t.Context(), time.Until(began.Add(plan.Duration)))
	for i, group := range s.groups {
		after, err := cgroupstat.Read(k.groups, group)
		if err != nil || after.Usage < before[i].Usage || after.Throttled < before[i].Throttled {
			return done, fmt.Errorf("the counters of %s: %w; %+v, and before %+v", group, err, after, before[i])
		}
		if throttled := after.Throttled - before[i].Throttled; i == 0 || throttled > done.throttled {
			done.throttled, done.periods = throttled, after.Periods-before[i].Periods
		}
		if i == 0 && s.quota > 0 {
			done.used = (after.Usage - before[i].Usage).Seconds() / time.Since(began).Seconds() / s.quota.Seconds() / 10
		}
	}
	return done, nil
}
