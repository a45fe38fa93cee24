package main

import (
	"testing"

	"pinfold.dev/pinfold/cmd/internal/completion/completiontest"
)

func TestMain(m *testing.M) { completiontest.Main(m, "pinfold-scheduler", main) }

func TestCompletion(t *testing.T) { completiontest.Run(t, "testdata/completion.txtar") }
