package verdict

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// history is for how long the server has counters.
const history = 4 * time.Hour

// TestServer asks a real Prometheus about counters of recorded programs, as a user does.
func TestServer(t *testing.T) {
	need.This(t, "Prometheus")
	dir := t.TempDir()
	url := serve(t, dir, counters(t, filepath.Join(dir, "counters.txt")))
	pinfold := must.Get(need.Program("pinfold"))(t)
	run := func(args ...string) (stdout, stderr string, exit int) {
		t.Helper()
		var out, messages bytes.Buffer
		cmd := exec.CommandContext(t.Context(), pinfold, append([]string{"advise", "--prometheus", url, "--since", "4h"}, args...)...)
		cmd.Stdout, cmd.Stderr = &out, &messages
		_ = cmd.Run()
		return out.String(), messages.String(), cmd.ProcessState.ExitCode()
	}
	out, messages, exit := run("-o", "json")
	var found []struct {
		Namespace, Workload, Container string
		Pods                           int
		verdict.Verdict
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || exit != 0 {
		t.Fatalf("exit status %d, %v: %s%s", exit, err, out, messages)
	}
	count := map[verdict.Action]int{}
	for _, w := range found {
		count[w.Action]++
		if w.Pods != 2 || w.Container != "app" || !strings.HasPrefix(w.Workload, "Deployment/") {
			t.Errorf("%+v", w)
		}
		switch {
		case w.Namespace == "free" && w.Action != verdict.NoLimit, w.Namespace == "dropped" && (w.Action != verdict.Unknown || w.Throttled != nil):
			t.Errorf("%+v", w)
		case w.Namespace == "shop" && (w.Throttled == nil || *w.Throttled < .05 || *w.Throttled > .15):
			t.Errorf("%s was throttled in a tenth of the periods: %+v", w.Workload, w)
		}
	}
	t.Log(count)
	if len(found) != len(recordings(t, fleet)) || count[verdict.Raise]+count[verdict.Burst] == 0 {
		t.Errorf("%d workloads: %v", len(found), count)
	}
	for _, document := range []string{"../../docs/advice.md", "../../docs/pinfold.md"} {
		blocks := golden.ReadCode(t, document)
		i := slices.IndexFunc(blocks, func(b golden.Code) bool { return strings.HasPrefix(b.Text, "pinfold advise --prometheus") })
		command := strings.Fields(strings.Replace(blocks[i].Text, "http://localhost:9090", url, 1))
		shown := exec.CommandContext(t.Context(), pinfold, append(command[1:], "--force")...)
		shown.Dir = dir
		if text, err := shown.CombinedOutput(); err != nil || !strings.Contains(string(text), "shop/Deployment/python-random") {
			t.Errorf("%q: %v: %s", command, err, text)
		}
	}
	page, patches := filepath.Join(dir, "fleet.html"), filepath.Join(dir, "patches")
	out, messages, exit = run("--html", page, "--force", "--patches", patches, "--check", "-n", "shop")
	if exit != 1 || !strings.Contains(messages, "throttled in more than 1% of the periods") || !strings.Contains(out, "shop/Deployment/python-random") {
		t.Errorf("exit status %d: %s%s", exit, out, messages)
	}
	if text := string(must.Get(os.ReadFile(page))(t)); !strings.Contains(text, "Deployment/python-random") {
		t.Error("the page has no workload")
	}
	if os.Getenv("PINFOLD_UPDATE") != "" { // the picture in README.md
		picture := must.Get(filepath.Abs("../../docs/fleet.png"))(t)
		if text, err := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1000,620", "--screenshot="+picture, "file://"+page).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
	}
	written := must.Get(filepath.Glob(patches + "/*.yaml"))(t)
	if len(written) == 0 || len(written) > len(found) {
		t.Errorf("%d patches", len(written))
	}
	if _, messages, exit := run("-n", "nowhere"); exit != 1 || !strings.Contains(messages, "no series container_cpu_usage_seconds_total of a container in namespace nowhere") {
		t.Errorf("exit status %d: %s", exit, messages)
	}
	url += "/nothing"
	if _, messages, exit := run(); exit != 1 || !strings.Contains(messages, "does not answer as Prometheus does") {
		t.Errorf("exit status %d: %s", exit, messages)
	}
}

// counters writes a file of counters that kubelets and kube-state-metrics have of recorded programs, in two
// pods each. Most of the programs are in namespace shop and have a limit that throttles them in a tenth of
// the periods; some are in namespace free and have none; of those in namespace dropped the limit is not
// known, nor whether it throttles.
func counters(t *testing.T, file string) string {
	t.Helper()
	f := must.Get(os.Create(file))(t)
	out := bufio.NewWriter(f)
	begin := time.Now().Add(-history).Truncate(time.Minute)
	type point struct{ usage, periods, throttled float64 }
	series := map[string][]string{}
	add := func(name, labels string, at time.Time, value float64) {
		series[name] = append(series[name], fmt.Sprintf("%s{%s} %g %d\n", name, labels, value, at.Unix()))
	}
	for i, r := range recordings(t, fleet) {
		limit := r.limitFor(.1)
		_, windows := r.replay(limit, 0)
		name := strings.ReplaceAll(strings.TrimPrefix(r.name, "/"), "/", "-")
		namespace := "shop"
		switch i % 12 {
		case 3:
			namespace = "free"
		case 7:
			namespace = "dropped"
		}
		for pod := range 2 {
			labels := fmt.Sprintf(`namespace="%s",pod="%s-5d4f8c7b9d-x7x2%c",container="app"`, namespace, name, "bc"[pod])
			var now point
			for n, at := 0, begin; at.Before(time.Now()); n, at = n+1, at.Add(time.Duration(window)*verdict.Period) {
				add("container_cpu_usage_seconds_total", labels+`,cpu="total",id="/kubepods/x"`, at, now.usage)
				its := fmt.Sprintf(`namespace="%s",pod="%s-5d4f8c7b9d-x7x2%c"`, namespace, name, "bc"[pod])
				add("kube_pod_info", its+fmt.Sprintf(`,node="n%d"`, pod), at, 1)
				add("kube_pod_status_phase", its+`,phase="Running"`, at, 1)
				add("kube_pod_owner", its+fmt.Sprintf(`,owner_kind="ReplicaSet",owner_name="%s-5d4f8c7b9d"`, name), at, 1)
				if pod == 0 {
					add("kube_replicaset_owner", fmt.Sprintf(`namespace="%s",replicaset="%s-5d4f8c7b9d",owner_kind="Deployment",owner_name="%s"`, namespace, name, name), at, 1)
				}
				if i == 0 {
					add("kube_node_status_allocatable", fmt.Sprintf(`node="n%d",resource="cpu",unit="core"`, pod), at, 8)
				}
				if namespace == "shop" {
					add("container_cpu_cfs_periods_total", labels, at, now.periods)
					add("container_cpu_cfs_throttled_periods_total", labels, at, now.throttled)
				}
				if namespace != "dropped" {
					add("kube_pod_container_info", labels, at, 1)
					add("kube_pod_container_resource_requests", labels+`,resource="cpu",unit="core"`, at, limit/2)
				}
				if namespace == "shop" {
					add("kube_pod_container_resource_limits", labels+`,resource="cpu",unit="core"`, at, limit)
				}
				add("kube_pod_container_resource_limits", labels+`,resource="memory",unit="byte"`, at, 1e8)
				w := &windows[(n+pod)%len(windows)]
				now.usage, now.periods, now.throttled = now.usage+w.Usage.Seconds(), now.periods+w.Periods, now.throttled+w.Throttled
			}
		}
	}
	for name, lines := range series {
		kind := "counter"
		if strings.HasPrefix(name, "kube_") {
			kind = "gauge"
		}
		fmt.Fprintf(out, "# TYPE %s %s\n", strings.TrimSuffix(name, "_total"), kind)
		for _, line := range lines {
			_, _ = out.WriteString(line)
		}
	}
	_, _ = out.WriteString("# EOF\n")
	must.Do(t, out.Flush())
	must.Do(t, f.Close())
	return file
}

// serve starts Prometheus with counters from a file, and returns its URL.
func serve(t *testing.T, dir, file string) (url string) {
	t.Helper()
	data := filepath.Join(dir, "data")
	promtool := must.Get(need.Program("promtool"))(t)
	if text, err := exec.CommandContext(t.Context(), promtool, "tsdb", "create-blocks-from", "openmetrics", file, data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	config := filepath.Join(dir, "prometheus.yaml")
	must.Do(t, os.WriteFile(config, []byte("global: {}\n"), 0o600))
	log := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	defer log.Close()
	server := exec.Command(must.Get(need.Program("prometheus-server"))(t), "--config.file="+config, "--storage.tsdb.path="+data, "--web.listen-address=127.0.0.1:0")
	server.Stdout, server.Stderr = log, log
	must.Do(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		if t.Failed() {
			t.Logf("%s", must.Get(os.ReadFile(log.Name()))(t))
		}
	})
	wait.Until(t, "Prometheus is ready", func() error {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			return err
		}
		address := listening.FindSubmatch(text)
		if address == nil {
			return errors.New("it does not listen yet")
		}
		url = "http://" + string(address[1])
		answer, err := http.Get(url + "/-/ready")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", answer.StatusCode)
		}
		return nil
	}, wait.CPUTime(server.Process.Pid))
	return url
}

// listening is what Prometheus logs when it listens.
var listening = regexp.MustCompile(`msg="Listening on".* address=(127\.0\.0\.1:\d+)`)
