package monitoring

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// metric is a series of a server, of which all values are on a line.
type metric struct {
	name, labels string
	at, each     float64 // at the beginning, and more in each minute
	from, to     int     // minutes
}

// day is the number of minutes that a server has stored, a little more than a day.
const day = 25 * 60

// cluster returns the metrics of a day of a small cluster, as kubelets and kube-state-metrics export
// them.
func cluster() (all []metric) {
	add := func(name, labels string, at, each float64) { all = append(all, metric{name, labels, at, each, 0, day}) }
	// container adds one that uses so many CPUs and is throttled in a share of the periods. It has a
	// new control group after a restart.
	container := func(namespace, pod, name string, limit, request, used, throttled float64, groups ...int) {
		of := fmt.Sprintf(`namespace=%q,pod=%q,container=%q`, namespace, pod, name)
		begin := 0
		for i, end := range append(groups, day) {
			counter := func(name string, each float64) {
				all = append(all, metric{name, fmt.Sprintf(`%s,id="/kubepods/%s/%d"`, of, pod, i), 0, each, begin, end})
			}
			counter("container_cpu_usage_seconds_total", 60*used)
			if limit > 0 {
				counter("container_cpu_cfs_periods_total", 600)
				counter("container_cpu_cfs_throttled_periods_total", 600*throttled)
				counter("container_cpu_cfs_throttled_seconds_total", 600*throttled*.08)
			}
			begin = end
		}
		if limit > 0 {
			add("kube_pod_container_resource_limits", of+`,resource="cpu",unit="core"`, limit, 0)
		}
		add("kube_pod_container_resource_requests", of+`,resource="cpu",unit="core"`, request, 0)
	}
	owner := func(namespace, of, name, kind, owner string) {
		object := map[string]string{"pod": "kube_pod_owner", "replicaset": "kube_replicaset_owner", "job_name": "kube_job_owner"}[of]
		add(object, fmt.Sprintf(`namespace=%q,%s=%q,owner_kind=%q,owner_name=%q`, namespace, of, name, kind, owner), 1, 0)
	}
	owner("shop", "replicaset", "web-5d4", "Deployment", "web")
	for _, pod := range []string{"web-5d4-a", "web-5d4-b"} {
		owner("shop", "pod", pod, "ReplicaSet", "web-5d4")
		container("shop", pod, "app", 1, 1, .3, .1, 700)
		container("shop", pod, "proxy", 1, 1, .1, .0001)
	}
	owner("batch", "job_name", "report-1", "CronJob", "report")
	owner("batch", "pod", "report-1-x", "Job", "report-1")
	container("batch", "report-1-x", "main", 0, .5, .5, 0)
	add("kube_pod_labels", `namespace="shop",pod="web-5d4-a",label_app="web"`, 1, 0)
	add("kube_pod_labels", `namespace="batch",pod="report-1-x",label_app="report",label_pinfold_dev_advice="off"`, 1, 0)
	owner("kube-system", "pod", "etcd-n1", "Node", "n1")
	container("kube-system", "etcd-n1", "etcd", 0, .1, .02, 0)
	// Sums of pods, and sandboxes.
	add("container_cpu_usage_seconds_total", `namespace="shop",pod="web-5d4-a",id="/kubepods/web-5d4-a"`, 0, 24)
	add("container_cpu_usage_seconds_total", `namespace="shop",pod="web-5d4-a",container="POD",id="/kubepods/web-5d4-a/pause"`, 0, 1)
	// A second server that scraped the same kubelet.
	for _, m := range all {
		if strings.Contains(m.labels, `pod="web-5d4-a"`) && strings.HasPrefix(m.name, "container_") {
			m.labels += `,prometheus="b"`
			all = append(all, m)
		}
	}
	return all
}

// native is a native histogram that gets values in each minute, by the index of their bucket: values
// up to 2^(index/8).
type native struct {
	name, labels string
	each         map[int]int64
}

// counted is a sample of a native histogram.
type counted struct {
	at int64
	h  *histogram.Histogram
}

func (s counted) T() int64                      { return s.at }
func (s counted) ST() int64                     { return 0 }
func (s counted) F() float64                    { panic("not a number") }
func (s counted) H() *histogram.Histogram       { return s.h }
func (s counted) FH() *histogram.FloatHistogram { return s.h.ToFloat(nil) }
func (s counted) Type() chunkenc.ValueType      { return chunkenc.ValHistogram }
func (s counted) Copy() chunks.Sample           { return counted{s.at, s.h.Copy()} }

// write writes a day of native histograms, as blocks of two hours.
func write(t *testing.T, dir string, end time.Time, histograms []native) {
	t.Helper()
	blocks := map[int64][]storage.Series{}
	for _, one := range histograms {
		samples := map[int64][]chunks.Sample{}
		for i := range day + 1 {
			h := &histogram.Histogram{Schema: 3, ZeroThreshold: 1e-3}
			last, before := 0, int64(0)
			for n, index := range slices.Sorted(maps.Keys(one.each)) {
				gap := int32(index)
				if n > 0 {
					gap = int32(index - last - 1)
				}
				h.PositiveSpans = append(h.PositiveSpans, histogram.Span{Offset: gap, Length: 1})
				h.PositiveBuckets = append(h.PositiveBuckets, one.each[index]*int64(i)-before)
				h.Count += uint64(one.each[index]) * uint64(i)
				last, before = index, one.each[index]*int64(i)
			}
			at := end.Add(time.Duration(i-day) * time.Minute).UnixMilli()
			samples[at/tsdb.DefaultBlockDuration] = append(samples[at/tsdb.DefaultBlockDuration], counted{at, h})
		}
		metric, err := parser.NewParser(parser.Options{}).ParseMetric(one.name + "{" + one.labels + "}")
		if err != nil {
			t.Fatal(err)
		}
		for block, all := range samples {
			blocks[block] = append(blocks[block], storage.NewListSeries(metric, all))
		}
	}
	for _, series := range blocks {
		if _, err := tsdb.CreateBlock(series, dir, 0, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
}

// find returns the path of Prometheus.
func find(t testing.TB) string {
	t.Helper()
	prometheus, err := filepath.Abs("../../bin/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(prometheus); err != nil {
		t.Skip("needs a Prometheus: make bin/prometheus")
	}
	return prometheus
}

// startPrometheus starts a server that has stored metrics until now, and returns its URL and the
// folder of its data.
func startPrometheus(t *testing.T, metrics []metric, histograms ...native) (url, data string) {
	t.Helper()
	prometheus := find(t)
	dir, end := t.TempDir(), time.Now().Truncate(time.Minute)
	file, err := os.Create(filepath.Join(dir, "metrics"))
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	for _, m := range metrics {
		for i := m.from; i <= min(m.to, day); i++ {
			fmt.Fprintf(out, "%s{%s} %g %d\n", m.name, m.labels, m.at+m.each*float64(i-m.from), end.Add(time.Duration(i-day)*time.Minute).Unix())
		}
	}
	fmt.Fprintln(out, "# EOF")
	if err := errors.Join(out.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
	data = filepath.Join(dir, "data")
	if text, err := exec.Command(filepath.Join(filepath.Dir(prometheus), "promtool"), "tsdb", "create-blocks-from", "openmetrics", file.Name(), data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	write(t, data, end, histograms)
	url, _ = serve(t, prometheus, data)
	return url, data
}

// serve starts a server with the data of a folder, and returns its URL and process.
func serve(t testing.TB, prometheus, data string) (url string, pid int) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "prometheus.yaml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	var log bytes.Buffer
	server := exec.Command(prometheus, "--config.file="+config, "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=30d", "--web.listen-address="+address)
	server.Stdout, server.Stderr, server.SysProcAttr = &log, &log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, _ = server.Process.Kill(), server.Wait(); t.Failed() {
			t.Log(log.String())
		}
	})
	for range 600 {
		if answer, err := http.Get("http://" + address + "/-/ready"); err == nil {
			if _ = answer.Body.Close(); answer.StatusCode == http.StatusOK {
				return "http://" + address, server.Process.Pid
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("Prometheus is not ready after a minute")
	return "", 0
}

// advise runs the command.
func advise(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.Command("../../bin/pinfold", append([]string{"advise"}, args...)...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// TestFleet checks the advice on a cluster's workloads with a real server, by the command of
// docs/advice.md.
func TestFleet(t *testing.T) {
	manual, err := os.ReadFile("../../docs/advice.md")
	if err != nil {
		t.Fatal(err)
	}
	const local = " --prometheus http://localhost:9090"
	if !bytes.Contains(manual, []byte("```sh advise\npinfold advise"+local+"\n```")) {
		t.Error("docs/advice.md does not have the command of this test")
	}
	url, _ := startPrometheus(t, cluster())
	for _, test := range []struct {
		args           string
		status         int
		stdout, stderr string // "" for nothing
	}{
		{"-v", 0, `1 of 4 containers is throttled in more than 1% of all periods, 1 of them at less than 50% of the limit. Requests reserve 1.88 CPUs more than high usage, 1.88 CPUs of that for sure.
TIME to TIME

NAMESPACE    WORKLOAD        CONTAINER  THROTTLED  OF TIMER  USED  LIMIT  REQUEST  ADVICE
shop         Deployment/web  app        10%        10%       0.3   1      1        burst, limit 1 to 2.6
shop         Deployment/web  proxy      0.01%      0.01%     0.1   1      1        request 1 to 0.1
kube-system  Pod/etcd-n1     etcd       -          -         0.02  -      0.1      request 0.1 to 0.02
batch        CronJob/report  main       -          -         0.5   -      0.5      
`, ""},
		{"--namespace batch", 0, `0 of 1 container are throttled in more than 1% of all periods. Requests reserve 0 CPUs more than high usage, 0 CPUs of that for sure.
TIME to TIME

1 container needs no change; -v shows it, too.
`, ""},
		{"-n batch -n kube-system -o csv --match resource!=\"memory\"", 0, `namespace,kind,name,container,finding,needless,throttled_of_all,throttled_of_all_low,throttled_of_all_high,throttled_of_timer,seen_seconds,containers,other_containers,replicas,mean_cpus,high_cpus,limit_cpus,request_cpus,held_back_cpus_low,held_back_cpus_high,burst,new_limit_cpus,new_limit_sure,new_request_cpus,new_request_sure,freed_cpus,recording_needed,excluded,reason
kube-system,Pod,etcd-n1,etcd,unlimited,false,,,,,SEEN,1,0,1,0.02,0.02,,0.1,,,false,,,0.02,true,0.08,false,false,there is no limit
batch,CronJob,report,main,unlimited,false,,,,,SEEN,1,0,1,0.5,0.5,,0.5,,,false,,,,,,false,false,there is no limit
`, ""},
		{"-n shop --check 5% -o json", 3, `{"begin":TIME,"end":TIME,"summary":"1 of 2 containers is throttled`, "pinfold: 1 container is throttled in more than 5% of all periods\n"},
		{"-n shop --check 20%", 0, "1 of 2 containers is throttled", ""},
		{"-n batch --exclude-label pinfold.dev/advice=off", 0, `0 of 0 containers are throttled in more than 1% of all periods. Requests reserve 0 CPUs more than high usage, 0 CPUs of that for sure. 1 more is excluded.
TIME to TIME

NAMESPACE  WORKLOAD        CONTAINER  THROTTLED  OF TIMER  USED  LIMIT  REQUEST  ADVICE
batch      CronJob/report  main       -          -         0.5   -      0.5      excluded
`, ""},
		{"-n batch --exclude-label pinfold.dev/advice=on -v", 0, "0 of 1 container are", ""},
		{"-n shop --exclude-label app --check 5% -o json", 0, `{"begin":TIME,"end":TIME,"summary":"0 of 0 containers are throttled in more than 1% of all periods. Requests reserve 0 CPUs more than high usage, 0 CPUs of that for sure. 2 more are excluded."`, ""},
		{"-n batch --exclude-label example.com/none", 0, "0 of 1 container are", "pinfold: no pod has the label example.com/none, as far as kube-state-metrics says: it exports labels that are listed, with --metric-labels-allowlist=pods=[example.com/none]\n"},
		{"-n kube-system --exclude-label app", 1, "", "pinfold: the server has no kube_pod_labels of kube-state-metrics: it exports labels that are listed, with --metric-labels-allowlist=pods=[app]\n"},
		{"-n none", 1, "", "pinfold: the server has container_cpu_usage_seconds_total, but of no container of namespace none in the last 24h0m0s: is its name right? The series must have the labels namespace, pod and container\n"},
		{"--metric container_cpu_usage_seconds_total=cpu", 1, "", "pinfold: the server has no cpu of the last 24h0m0s: it must scrape /metrics/cadvisor of the kubelets; if it has that metric under another name, say so with --metric container_cpu_usage_seconds_total=NAME\n"},
		{"--since 5m", 1, "", "pinfold: the server has containers, but too few values for their usage in 1m0s: ask for more with --since, or look whether it scrapes the kubelets now\n"},
		{"--match }", 1, "", "pinfold: query count by (namespace, cluster, cluster_id, cluster_name, k8s_cluster, k8s_cluster_name, kubernetes_cluster) (present_over_time((group by (namespace, pod, container, cluster, cluster_id, cluster_name, k8s_cluster, k8s_cluster_name, kubernetes_cluster) (container_cpu_usage_seconds_total{container!=\"\",container!=\"POD\",}}))[12300s:300s])): bad_data: invalid parameter \"query\""},
		{"--dry-run", 0, "# 6 containers, each query with start=TIME end=TIME step=3h25m0s\n\n# 6 containers of batch, kube-system, shop\ncount_over_time((sum by", ""},
	} {
		stdout, stderr, status := advise(t, append([]string{"--prometheus", url, "--since", "1d"}, strings.Fields(test.args)...)...)
		stdout = regexp.MustCompile(`"?20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"?`).ReplaceAllString(stdout, "TIME")
		stdout = regexp.MustCompile(`,8[56]\d{3},`).ReplaceAllString(stdout, ",SEEN,")
		if status != test.status || !strings.HasPrefix(stdout, test.stdout) || !strings.HasPrefix(stderr, test.stderr) || test.stdout == "" && stdout != "" || test.stderr == "" && stderr != "" {
			t.Errorf("%s: status %d, stdout:\n%s\nstderr:\n%s\nwant status %d, stdout:\n%s\nstderr:\n%s", test.args, status, stdout, stderr, test.status, test.stdout, test.stderr)
		}
	}
}

// times are those of a report.
var times = regexp.MustCompile(`20\d\d-\d\d-\d\dT\S+ to \S+`)

// TestFleetFiles checks that the answers of a server, by the commands of docs/advice.md, and its
// data, as promtool prints them, lead to the same advice as the server.
func TestFleetFiles(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl, which docs/advice.md uses")
	}
	bucket := native{"pinfold_container_cpu_demand_cores", `namespace="shop",pod="none",container="app"`, map[int]int64{1: 1}}
	url, data := startPrometheus(t, cluster(), bucket)
	manual, err := os.ReadFile("../../docs/advice.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("(?s)```sh save\n(.*?)```").FindSubmatch(manual)
	if commands == nil {
		t.Fatal("docs/advice.md does not say how to save an answer")
	}
	programs, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	shell := func(commands string) (stdout, stderr string) {
		var out, errs bytes.Buffer
		command := exec.Command("sh", "-ec", commands)
		command.Dir, command.Stdout, command.Stderr = t.TempDir(), &out, &errs
		command.Env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
		if err := command.Run(); err != nil {
			t.Errorf("%s: %v\n%s", commands, err, errs.String())
		}
		return times.ReplaceAllString(out.String(), "TIME"), errs.String()
	}
	save := strings.ReplaceAll(string(commands[1]), "http://localhost:9090", url)
	// A day that ends in another minute has other samples: on a busy machine a minute may pass between
	// two commands.
	const attempts = 5
	// An answer has the last sample before each minute, so figures differ a little: two digits count.
	number, space := regexp.MustCompile(`\d+\.\d+`), regexp.MustCompile(` +`)
	rough := func(text string) string {
		text = space.ReplaceAllString(times.ReplaceAllString(text, "TIME"), " ")
		return number.ReplaceAllStringFunc(text, func(digits string) string {
			x, err := strconv.ParseFloat(digits, 64)
			if err != nil {
				t.Fatal(err)
			}
			return strconv.FormatFloat(x, 'g', 2, 64)
		})
	}
	compare := func(what, commands, stderr string, flags ...string) {
		t.Helper()
		for attempt := range attempts {
			want, _, _ := advise(t, append([]string{"--prometheus", url, "--since", "1d"}, flags...)...)
			got, said := shell(commands)
			if regexp.MustCompile(stderr).MatchString(said) && rough(got) == rough(want) {
				return
			}
			if attempt == attempts-1 {
				t.Errorf("%s: %s%s\nwant %s", what, got, said, want)
			}
		}
	}
	compare("an answer", save, `^$`, "-n", "shop")
	compare("a dump", "promtool tsdb dump "+data+" | gzip > dump.gz; pinfold advise dump.gz --since 1d -v",
		`^pinfold: 1\d+ native histograms are left out: .*\n$`, "-v")
}

// TestFleetPatches checks the folder of patches, which appears whole, and once.
func TestFleetPatches(t *testing.T) {
	url, _ := startPrometheus(t, cluster())
	dir := filepath.Join(t.TempDir(), "patches")
	args := []string{"--prometheus", url, "--since", "1d", "--patches", dir, "--change", "burst,limit,request", "--max-change", "20", "--html", filepath.Join(t.TempDir(), "page.html"), "--force"}
	if _, stderr, status := advise(t, args...); status != 0 || stderr != "pinfold: kube-system/etcd-n1 is left out: it is a Pod, whose containers no patch can change\n" {
		t.Errorf("status %d, %s", status, stderr)
	}
	if page, err := os.ReadFile(args[len(args)-2]); err != nil || !bytes.Contains(page, []byte(`"namespace":"shop","kind":"Deployment","name":"web","container":"app"`)) {
		t.Errorf("the page: %.200s, %v", page, err)
	}
	var files []string
	for file, want := range map[string]string{
		"kustomization.yaml": "- path: shop/deployment-web.yaml\n",
		"shop/deployment-web.yaml": `  namespace: shop
spec:
  template:
    metadata:
      annotations:
        pinfold.dev/cpu-burst: '{"policy":"auto"}'
    spec:
      containers:
      - name: app
        resources:
          limits:
            cpu: 2600m
      - name: proxy
        resources:
          requests:
            cpu: 100m
`} {
		files = append(files, file)
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.HasSuffix(string(text), want) {
			t.Errorf("%s is %s, %v; want %s", file, text, err, want)
		}
	}
	if all, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "*", "*")); err != nil || len(all) != len(files) { // shop is a folder
		t.Errorf("found %q, %v", all, err)
	}
	args[5] = filepath.Join(dir, "less")
	if _, stderr, status := advise(t, append(args, "--exclude-label", "app=web")...); status != 0 || stderr != "pinfold: kube-system/etcd-n1 is left out: it is a Pod, whose containers no patch can change\npinfold: shop/web is left out: it is excluded by a label\npinfold: there is nothing to patch, and "+args[5]+" is not written\n" {
		t.Errorf("without a workload: status %d, %s", status, stderr)
	}
	args[5] = dir
	if _, stderr, status := advise(t, args...); status != 1 || !strings.Contains(stderr, "exists: name a new folder, or remove it") {
		t.Errorf("a second time: status %d, %s", status, stderr)
	}
}

// TestFleetWithAgents checks that what agents have counted decides about limits: the least that is
// needed for "app", which wants 1.5 CPUs in a tenth of the periods, and a third for "proxy", which
// never wants more.
func TestFleetWithAgents(t *testing.T) {
	bucket := func(cpus float64) int { return int(math.Ceil(8 * math.Log2(cpus))) }
	var all []native
	for name, each := range map[string]map[int]int64{"app": {bucket(.2): 540, bucket(1.5): 60}, "proxy": {bucket(.1): 590, bucket(.3): 10}} {
		labels := fmt.Sprintf(`namespace="shop",pod="web-5d4-a",container=%q`, name)
		all = append(all, native{"pinfold_container_cpu_demand_cores", labels, each},
			native{"pinfold_container_cpu_throttling_seconds", labels, map[int]int64{bucket(.08): 600}})
	}
	url, _ := startPrometheus(t, cluster(), all...)
	stdout, stderr, status := advise(t, "--prometheus", url, "--since", "1d", "-n", "shop")
	for _, want := range []string{"  burst, limit 1 to 1.68\n", "  limit 1 to 0.34, request 1 to 0.1\n"} {
		if status != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("status %d, want %q in\n%s%s", status, want, stdout, stderr)
		}
	}
}
