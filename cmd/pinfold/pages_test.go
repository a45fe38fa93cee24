package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/report/chart/charttest"
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
	charttest.Fit(t, dir, "one.html", "none.html", "many.html", "sweep/index.html", "sweep-four/index.html")
}
