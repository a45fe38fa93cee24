package command

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// serve answers /version with the minors in turn, and with the last one from then on. "" is an
// error.
func serve(t *testing.T, minors ...string) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		minor := minors[min(int(asked.Add(1)), len(minors))-1]
		if r.URL.Path != "/version" || minor == "" {
			http.Error(w, "starting", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"major":"1","minor":%q,"gitVersion":"v1.0.0"}`, minor)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// follow returns the value of --emulated-version that a command with these flags gets.
func follow(t *testing.T, flags ...string) (string, error) {
	t.Helper()
	o := options.NewOptions()
	set := o.Flags.FlagSet("feature gate")
	for _, other := range o.Flags.FlagSets {
		set.AddFlagSet(other)
	}
	must.Do(t, set.Parse(flags))
	_, err := followAPIServer(t.Context(), set, o)
	return set.Lookup(emulation).Value.String(), err
}

func TestRunsAsTheAPIServer(t *testing.T) {
	for _, supported := range versions.Supported() {
		minor := strings.TrimPrefix(supported, "1.")
		url, _ := serve(t, minor+"+")
		if got, err := follow(t, "--master="+url); err != nil || got != "[kube="+supported+"]" {
			t.Errorf("the API server is %s: --emulated-version is %s, %v", supported, got, err)
		}
	}
	// Servers of two versions have one address.
	url, asked := serve(t, "36", "35", "36")
	if got, err := follow(t, "--master="+url); err != nil || got != "[kube=1.35]" || asked.Load() != answers {
		t.Errorf("during an upgrade: %s, %v, after %d answers", got, err, asked.Load())
	}
	// The API server starts after the scheduler.
	url, _ = serve(t, "", "36")
	if got, err := follow(t, "--master="+url); err != nil || got != "[kube=1.36]" {
		t.Errorf("after an error: %s, %v", got, err)
	}
}

// An API server that is not supported is an error at once, and the error says what to do.
func TestUnsupportedAPIServer(t *testing.T) {
	for minor, want := range map[string]string{
		"33": "version 1.33 of Kubernetes is not supported: 1.34, 1.35, 1.36, 1.37 are; use a release of Pinfold for that version",
		"38": "version 1.38 of Kubernetes is not supported: 1.34, 1.35, 1.36, 1.37 are; use a release of Pinfold for that version, or until there is one --emulated-version=1.37",
		"39": "version 1.39 of Kubernetes is not supported: 1.34, 1.35, 1.36, 1.37 are; use a release of Pinfold for that version",
	} {
		url, asked := serve(t, minor)
		if _, err := follow(t, "--master="+url); err == nil || !strings.HasSuffix(err.Error(), want) || asked.Load() != answers {
			t.Errorf("1.%s: %v, after %d answers", minor, err, asked.Load())
		}
	}
}

// The API server is the one that kube-scheduler will use.
func TestAPIServerOfTheConfiguration(t *testing.T) {
	url, _ := serve(t, "36")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	kubeconfig := write("kubeconfig", `{"clusters":[{"name":"c","cluster":{"server":"`+url+`"}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`)
	config := "clientConnection: {kubeconfig: " + kubeconfig + "}\nprofiles: [{schedulerName: x}]\n"
	for name, flags := range map[string][]string{
		"kubeconfig":              {"--kubeconfig=" + kubeconfig},
		"configuration":           {"--config=" + write("config", config)},
		"configuration, not flag": {"--config=" + write("config", config), "--kubeconfig=/absent"},
	} {
		if got, err := follow(t, flags...); err != nil || got != "[kube=1.36]" {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for want, flags := range map[string][]string{
		"read the scheduler's configuration: open /absent": {"--config=/absent"},
		"config: error converting YAML":                    {"--config=" + write("config", "{")},
		"/nowhere":                                         {"--config=" + write("nowhere", "clientConnection: {kubeconfig: /nowhere}")},
	} {
		if _, err := follow(t, flags...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", flags, err, want)
		}
	}
}

// A configuration that can be read once only, such as a pipe, is still there for kube-scheduler.
func TestConfigurationInAPipe(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	const text = "clientConnection: {kubeconfig: /some/where}\n"
	_, err1 := write.WriteString(text)
	err2 := write.Close()
	o := &options.Options{ConfigFile: fmt.Sprintf("/proc/self/fd/%d", read.Fd())}
	path, err3 := readKubeconfigPath(o)
	if path != "/some/where" || err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(path, err1, err2, err3)
	}
	for range 2 {
		if got, err := os.ReadFile(o.ConfigFile); err != nil || string(got) != text {
			t.Errorf("kube-scheduler reads %q, %v", got, err)
		}
	}
}

// Gates that a version does not have yet, and that are off, are left out. Others are as they were.
func TestDropUnknown(t *testing.T) {
	settings := map[string][]string{
		"":     {"DRADeviceTaintRules=false", " DRADeviceTaintRules = False", "DRADeviceTaintRules=true", "DRADeviceTaints=false"},
		"kube": {"DRADeviceTaintRules=0", "NoSuchGate=false", "AllAlpha=false", "odd", "DRADeviceTaintRules=perhaps"},
	}
	dropUnknown(settings, version.MajorMinor(1, 34))
	if got := settings[""]; !slices.Equal(got, []string{"DRADeviceTaintRules=true", "DRADeviceTaints=false"}) {
		t.Errorf("gates %q", got)
	}
	if got := settings["kube"]; !slices.Equal(got, []string{"NoSuchGate=false", "AllAlpha=false", "odd", "DRADeviceTaintRules=perhaps"}) {
		t.Errorf("gates %q", got)
	}
	settings = map[string][]string{"": {"DRADeviceTaintRules=false"}}
	if dropUnknown(settings, version.MajorMinor(1, 36)); len(settings[""]) != 1 {
		t.Error("a gate that exists was dropped")
	}
}

// The scheduler starts again when all answers of a time were another version that is supported.
// Each answer comes a minute after the one before it.
func TestChange(t *testing.T) {
	for name, test := range map[string]struct {
		answers string
		restart int // at this answer, 0 if never
	}{
		"unchanged":                    {"36 36 36 36 36 36 36 36", 0},
		"upgraded":                     {"36 37 37 37 37 37 37", 7},
		"downgraded":                   {"36 36 35 35 35 35 35 35", 8},
		"being upgraded":               {"37 36 37 37 37 36 37 37 37 37 36 37 37 37 37 37 36", 0},
		"being upgraded, then done":    {"37 37 37 37 37 36 37 37 37 37 37 37", 12},
		"reverted":                     {"37 37 37 36 36 36", 0},
		"to an unsupported one":        {"38 38 38 38 38 38 38 38 38", 0},
		"below the oldest":             {"33 33 33 33 33 33 33 33 33", 0},
		"upgraded while some are new":  {"37 38 37 38 37 37", 6},
		"upgraded twice, never before": {"37 37 37 38 38 38 38 38", 0},
	} {
		c := change{running: version.MajorMinor(1, 36), settle: 5 * time.Minute}
		now, restart := time.Time{}, 0
		for i, minor := range strings.Fields(test.answers) {
			now = now.Add(time.Minute)
			if c.see(version.MustParseGeneric("1."+minor), now) {
				restart = i + 1
				break
			}
		}
		if restart != test.restart {
			t.Errorf("%s: restarts at answer %d, want %d", name, restart, test.restart)
		}
	}
}

// watch ends when the API server has changed, and asks over new connections.
func TestWatch(t *testing.T) {
	var connections atomic.Int32
	var minor atomic.Value
	minor.Store("36")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"major":"1","minor":%q}`, minor.Load())
	}))
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		connections.Add(1)
		return ctx
	}
	server.Start()
	defer server.Close()
	api := must.Get(newAPIServer(&options.Options{Master: server.URL, Deprecated: &options.DeprecatedOptions{}}))(t)
	ended := make(chan struct{})
	go func() { api.watch(t.Context(), version.MajorMinor(1, 36), 200*time.Millisecond); close(ended) }()
	wait.True(t, "20 connections", func() bool { return connections.Load() >= 20 })
	select {
	case <-ended:
		t.Fatal("watch ended although the version is the same")
	default:
	}
	minor.Store("37")
	<-ended
}

// TestEnd runs a scheduler until its API server has another version. Without the election of a leader, as
// here, kube-scheduler ends with an error even then.
func TestEnd(t *testing.T) {
	minors := slices.Repeat([]string{"37"}, 20) // "other" requests count, too
	url, _ := serve(t, append(minors, "36")...)
	cmd := New("v1.2.3", 200*time.Millisecond)
	cmd.SetArgs([]string{"--master=" + url, "--leader-elect=false", "--secure-port=0"})
	if err := cmd.Execute(); err != nil {
		t.Errorf("the scheduler has ended to be started again, with error: %v", err)
	}
}
