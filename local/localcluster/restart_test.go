package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/local/supervisor"
	"pinfold.dev/pinfold/test/must"
)

// idleCluster returns a cluster that has started nothing yet, in a directory where the components
// of the test binary hang (see TestMain).
func idleCluster(t *testing.T) *Cluster {
	dir := filepath.Join(t.TempDir(), "hang")
	config := must.Get(testConfig(t, dir).withDefaults())(t)
	c := &Cluster{config: config, layout: layout{dir}, ports: map[string]*ReservedPort{}, running: map[string]*supervisor.Child{}}
	must.Do(t, Claim(dir))
	must.Do(t, c.layout.create(quiet()))
	c.supervisor = supervisor.New(supervisor.Options{Changed: c.stateChanged})
	t.Cleanup(c.supervisor.Close)
	return c
}

func TestComponentsStopAndStart(t *testing.T) {
	c := idleCluster(t)
	must.Do(t, c.run(KWOK, kwokFlags(c.layout), nil).WaitReady(t.Context()))
	first := c.PID(KWOK)
	must.Do(t, c.StopComponent(KWOK))
	if pid := c.PID(KWOK); pid != 0 {
		t.Errorf("the stopped component has process id %d", pid)
	}
	must.Do(t, c.StartComponent(t.Context(), KWOK))
	state := must.Get(lastState(c.layout.dir))(t) // has each component once
	if pid := c.PID(KWOK); pid == 0 || pid == first || len(state.Components) != 1 || state.Components[0].PID != pid {
		t.Errorf("process ids %d before and %d after; the state has %+v", first, pid, state.Components)
	}
	for _, err := range []error{c.StopComponent("kubelet"), c.StartComponent(t.Context(), "kubelet")} {
		if err == nil || !strings.Contains(err.Error(), ` kubelet: `) || !strings.Contains(err.Error(), `["kwok"]`) {
			t.Errorf("%v, want an error that lists the components", err)
		}
	}
}

func TestConfigureScheduler(t *testing.T) {
	c := idleCluster(t)
	must.Do(t, c.ConfigureScheduler([]byte(plainSchedulerConfig+"parallelism: 3\n")))
	text := must.Get(os.ReadFile(c.layout.path("config", schedulerConfigName)))(t)
	for _, want := range []string{"parallelism: 3", c.layout.kubeconfig(Scheduler)} {
		if !strings.Contains(string(text), want) {
			t.Errorf("configuration without %q:\n%s", want, text)
		}
	}
	if err := c.ConfigureScheduler([]byte("kind: Pod")); err == nil {
		t.Error("a Pod is accepted as a configuration")
	}
	if again, _ := os.ReadFile(c.layout.path("config", schedulerConfigName)); string(again) != string(text) {
		t.Errorf("a rejected configuration was written:\n%s", again)
	}
}
