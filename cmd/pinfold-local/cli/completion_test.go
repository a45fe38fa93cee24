package cli

import (
	"context"
	"os"
	"testing"

	"pinfold.dev/pinfold/cmd/internal/completion/completiontest"
	"pinfold.dev/pinfold/cmd/internal/usage"
)

// If up gets further than a test expects, the components and the supervisor that it starts are this
// test program, which exits at once.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "component" || os.Args[1] == "up") {
		os.Exit(1)
	}
	completiontest.Main(m, "pinfold-local", func() {
		os.Exit(usage.ExitStatus(Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)))
	})
}

func TestCompletion(t *testing.T) { completiontest.Run(t, "testdata/completion.txtar") }
