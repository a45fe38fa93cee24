package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/fleet"
	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/report/chart/charttest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// TestPagesFit writes every HTML page that the program can write, and shows it in a browser.
func TestPagesFit(t *testing.T) {
	need.This(t, "Chromium")
	race.SkipLong(t)
	dir := t.TempDir()
	shop, fine, long := "testdata/recordings/shop.csv", "testdata/recordings/fine.csv", "testdata/manual/cg1.csv"
	for name, args := range map[string][]string{
		"one.html":   {"advise", shop, "--node-cpus", "16", "--html"},
		"none.html":  {"advise", fine, "--throttled", ".1%", "--html"},
		"many.html":  {"advise", shop, fine, long, "--html"},
		"sweep":      {"simulate", "sweep", "--mean", ".3,.7,.9", "--periods", "6400", "-o"},
		"sweep-four": {"simulate", "sweep", "--mean", ".3,.7,.9", "--periods", "6400", "--burst", "0,50%,100%,inf", "--distribution", "onoff", "-o"},
	} {
		if err := frame.Run(t.Context(), newRoot("pinfold"), append(args, filepath.Join(dir, name)), strings.NewReader(""), io.Discard, io.Discard); err != nil {
			t.Fatal(name, err)
		}
	}
	var fleetPage bytes.Buffer
	must.Do(t, fleet.Page(&fleetPage, workloads(300), &fleet.Request{Since: 7 * 24 * time.Hour, At: time.Unix(1_800_000_000, 0), Goal: .01}))
	must.Do(t, os.WriteFile(filepath.Join(dir, "fleet.html"), fleetPage.Bytes(), 0o600))
	charttest.Fit(t, dir, "fleet.html", "one.html", "none.html", "many.html", "sweep/index.html", "sweep-four/index.html")
}

// workloads returns verdicts of all kinds.
func workloads(n int) (all []fleet.Workload) {
	actions := []verdict.Action{verdict.Burst, verdict.Raise, verdict.Unknown, verdict.Lower, verdict.Fine, verdict.NoLimit}
	for i := range n {
		share, cpus := float64(i)/float64(2*n), .3
		v := verdict.Verdict{Action: actions[i*len(actions)/n], Reason: "it was throttled in 20% of the periods, and uses 30% of its limit", CPUs: &cpus, Limit: 1, Advised: 1.25, Low: 1, High: 1.25}
		v.Throttled, v.Predicted = &share, &share
		all = append(all, fleet.Workload{Namespace: fmt.Sprintf("namespace-%d", i%7), Workload: fmt.Sprintf("Deployment/a-service-with-a-rather-long-name-%d", i), Container: "app", Pods: 3, Verdict: v})
	}
	return all
}
