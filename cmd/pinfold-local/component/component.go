// Package component contains the servers of a local cluster, one function for each. A process runs
// one of them. They are separate processes of one executable because Kubernetes keeps flags and
// feature gates in global variables.
package component

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/localnode"
)

// Word is the first argument that makes the executable be a component.
const Word = "component"

// server runs one component with its flags until the process is told to end,
// and returns the exit status.
type server func(flags []string) int

var servers = map[string]server{
	localcluster.Etcd:              etcd,
	localcluster.APIServer:         apiServer,
	localcluster.ControllerManager: controllerManager,
	localcluster.Scheduler:         scheduler,
	localcluster.KWOK:              kwok,
	localnode.Registry:             imageRegistry,
}

// Main is the component named by the first argument, with the rest as its
// flags. It returns the exit status.
func Main(args []string, stderr io.Writer) int {
	if len(args) == 0 || servers[args[0]] == nil {
		fmt.Fprintf(stderr, "pinfold-local: give one of these components, and its flags: %s\n",
			strings.Join(slices.Sorted(maps.Keys(servers)), ", "))
		return 2
	}
	name, flags := args[0], args[1:]
	// Some components, and the libraries under them, look at the process's own
	// arguments. They are to see what they would see alone.
	os.Args = append([]string{name}, flags...)
	return servers[name](flags)
}
