package node

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/local/load"
	"pinfold.dev/pinfold/report/session"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// terminalPicture is README's recording of a terminal, which TestTerminal writes anew with
// PINFOLD_UPDATE=1.
const terminalPicture = repositoryDir + "/docs/terminal.svg"

// TestTerminal plays what README's picture shows, on a real node with the agent of a release: a web server is
// throttled at a third of its limit, the plugin finds it and says why, and with an annotation it is
// throttled no more.
func TestTerminal(t *testing.T) {
	requireNode(t)
	if _, err := os.Stat(filepath.Join(repositoryDir, "bin", "helm4")); err != nil {
		t.Skipf("%v: make bin/helm4", err)
	}
	if !canTrace(t) {
		t.Skip("the kernel cannot be traced")
	}
	from := publish(t, firstVersion)
	c := startWith(t, "--stock", "--images", from.images(firstVersion))
	o := newOperator(t, c, from.variables()...)
	o.do(readPage(t, repositoryDir+"/README.md").text("install"))
	site := o.siteValues()
	maps.Copy(site["scheduler"].(map[string]any), map[string]any{"enabled": false})
	maps.Copy(site["agent"].(map[string]any), map[string]any{"tracePercent": 5})
	o.write("values.yaml", merged(t, "", site))
	o.do("helm install pinfold oci://$REGISTRY/charts/pinfold --version $VERSION --namespace pinfold-system --create-namespace --values values.yaml --wait")
	pod := c.run(t, podOf("web", "", container("app", "8001", "300m")))
	serve(t, fmt.Sprintf("http://%s:8001/?cpu=50ms", pod.Status.PodIP))

	var steps []session.Step
	step := func(command, want string, reads time.Duration) string {
		var out string
		eventually(t, command, func() (err error) { // the agent may not know the pod yet, and "why" may end with notes
			if out, err = o.try("{ " + command + "; } 2>/dev/null"); err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("no %q: %s", want, out)
			}
			return err
		})
		steps = append(steps, session.Step{Command: command, Output: out, Reads: reads})
		return out
	}
	before := throttledIn(t, step("kubectl pinfold top -n default", "# throttled in", 5*time.Second))
	const annotate = "  kubectl -n default annotate "
	_, rest, _ := strings.Cut(step("kubectl pinfold why web --duration 5s | tail -n 5", annotate, 5*time.Second), annotate)
	step(strings.TrimSpace(annotate+rest), "annotated", time.Second)
	eventually(t, "burst counts", func() error {
		out, err := o.try("kubectl pinfold top -n default")
		if err == nil && throttledIn(t, out) > 0 {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
	after := throttledIn(t, step("kubectl pinfold top -n default", "default/web/app", 4*time.Second))
	if before < 10 || after > before/4 {
		t.Errorf("it is throttled in %d%% of the periods, and with burst in %d%%", before, after)
	}
	if golden.Updating() {
		file := must.Get(os.Create(terminalPicture))(t)
		must.Do(t, session.Draw(file, "A terminal: kubectl pinfold top finds a container that is throttled, why says why, and with an annotation it is throttled no more", steps))
		must.Do(t, file.Close())
	}
}

// serve sends a request every 600 ms until the test ends.
func serve(t *testing.T, address string) {
	t.Helper()
	sender := must.Get(load.NewHTTP(address))(t)
	go func() {
		_, _ = load.Run(t.Context(), load.Plan{Batch: 1, Every: 600 * time.Millisecond, Duration: time.Hour, Timeout: time.Minute}, sender.Send)
	}()
}

// throttledIn returns the percentage of the timer's periods in which the container app was throttled, of a table.
func throttledIn(t *testing.T, table string) int {
	t.Helper()
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "default/web/app") {
			continue
		}
		if shares := regexp.MustCompile(`(\d+)%`).FindAllStringSubmatch(line, -1); len(shares) >= 4 { // of the limit, twice; THR/TIMER, THR/WALL
			return must.Get(strconv.Atoi(shares[len(shares)-3][1]))(t)
		}
	}
	return 0
}
