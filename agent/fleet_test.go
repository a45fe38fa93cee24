package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/test/must"
)

// Variables of TestFleet: a cluster that may be filled, such as that of "pinfold-local up", and how many agents.
const (
	fleetKubeconfigEnv = "PINFOLD_TEST_FLEET"
	fleetSizeEnv       = "PINFOLD_TEST_FLEET_SIZE"
)

// TestFleet lets many agents renew their leases at a real API server, each by a connection of its
// own as on its node, and prints how many writes a second these are once all have begun. Nodes fleet-* stay.
func TestFleet(t *testing.T) {
	file := os.Getenv(fleetKubeconfigEnv)
	if file == "" {
		t.Skipf("set %s to the kubeconfig of a cluster that may be filled to run this test", fleetKubeconfigEnv)
	}
	size := 5000
	if text := os.Getenv(fleetSizeEnv); text != "" {
		size = must.Get(strconv.Atoi(text))(t)
	}
	config := must.Get(clientcmd.BuildConfigFromFlags("", file))(t)
	config.QPS = -1
	admin := must.Get(kubernetes.NewForConfig(config))(t)
	const namespace = "fleet"
	_, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	must.Do(t, err)
	defer func() {
		must.Do(t, admin.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{}))
	}()

	ctx, cancel := context.WithCancel(t.Context())
	var agents sync.WaitGroup
	var failed atomic.Int64
	o := Options{LeaseNamespace: namespace, Client: admin}.withDefaults()
	for i := range size {
		// The owner of the agent's lease, without which it would be deleted.
		node, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("fleet-%d", i)}}, metav1.CreateOptions{})
		must.Do(t, err)
		agents.Go(func() {
			select { // a DaemonSet does not start all pods at once
			case <-time.After(o.LeaseEvery * time.Duration(i%97) / 97):
			case <-ctx.Done():
				return
			}
			own, connection := o, rest.CopyConfig(config)
			connection.Dial = (&net.Dialer{}).DialContext // else all agents have one
			own.Client = kubernetes.NewForConfigOrDie(connection)
			own.NodeName = node.Name
			h := &heartbeat{Options: own, node: &atomic.Pointer[types.UID]{}, lastRound: &atomic.Int64{}, resumed: func() { failed.Add(1) },
				dedup: logdedup.New(slog.New(slog.DiscardHandler), time.Now)}
			h.node.Store(&node.UID)
			h.lastRound.Store(time.Now().Add(24 * time.Hour).UnixNano())
			h.loop(ctx)
		})
	}
	time.Sleep(o.LeaseEvery + 10*time.Second)
	begun, before, cpu := time.Now(), leaseWrites(t, admin), processTime(t, admin)
	time.Sleep(3 * o.LeaseEvery)
	seconds := time.Since(begun).Seconds()
	rate := float64(leaseWrites(t, admin)-before) / seconds
	t.Logf("%d agents write %.1f leases a second; the API server used %.2f CPUs; %d times an agent was late", size, rate, (processTime(t, admin)-cpu)/seconds, failed.Load())
	cancel()
	agents.Wait()
	if want := float64(size) / o.LeaseEvery.Seconds(); rate > 1.2*want {
		t.Errorf("they write %.1f leases a second, want %.1f", rate, want)
	}
}

// leaseWrites returns how many leases the API server has written, of all components.
func leaseWrites(t *testing.T, client kubernetes.Interface) (n int) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?m)^apiserver_request_total\{[^}]*resource="leases"[^}]*verb="(?:POST|PUT|PATCH)"[^}]*\} (\S+)$`).FindAllSubmatch(apiMetrics(t, client), -1) {
		n += int(must.Get(strconv.ParseFloat(string(found[1]), 64))(t))
	}
	return n
}

// processTime returns the CPU time of the API server's process in seconds.
func processTime(t *testing.T, client kubernetes.Interface) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`).FindSubmatch(apiMetrics(t, client))
	if found == nil {
		t.Fatal("the API server does not say how much CPU time it has used")
	}
	return must.Get(strconv.ParseFloat(string(found[1]), 64))(t)
}

func apiMetrics(t *testing.T, client kubernetes.Interface) []byte {
	t.Helper()
	return must.Get(client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))(t)
}
