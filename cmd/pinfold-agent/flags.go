package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	topologyclient "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// nodeFlags are what several commands need.
type nodeFlags struct {
	nodeName, kubeconfig, root, runDir, kubeletCA, leases string
	verbose                                               bool
}

func (f *nodeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.nodeName, "node-name", os.Getenv("NODE_NAME"), "the node's name (default: the variable NODE_NAME)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as a pod of the cluster)")
	flags.StringVar(&f.root, "host-root", "/", "where the machine's root directory is mounted")
	flags.StringVar(&f.kubeletCA, "kubelet-ca", "", "certificates that sign the kubelet's; without it only a kubelet at an address of this machine is asked")
}

// addWriter adds what only those need that write.
func (f *nodeFlags) addWriter(flags *pflag.FlagSet) {
	f.add(flags)
	flags.StringVar(&f.runDir, "run-dir", "", "directory for the lock and what was last known (default: run/pinfold below --host-root)")
	flags.StringVar(&f.leases, "lease-namespace", nodetopology.LeaseNamespace,
		`where the agent has its lease, by which the scheduler knows that it works; "" does without`)
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every write")
}

// options turns the flags into what the agent works with.
func (f *nodeFlags) options(stderr io.Writer) (agent.Options, error) {
	if f.nodeName == "" {
		return agent.Options{}, usage.Errorf("no node is named: give --node-name, or set NODE_NAME (in a pod: from spec.nodeName)")
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	o := agent.Options{
		Config: control.Config{NodeName: f.nodeName},
		Root:   f.root,
		RunDir: f.runDir,

		LeaseNamespace: f.leases,
		Log:            slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	}
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return agent.Options{}, err
	}
	compact := rest.CopyConfig(config)
	compact.ContentType = runtime.ContentTypeProtobuf
	compact.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if o.Client, err = kubernetes.NewForConfig(compact); err != nil {
		return agent.Options{}, fmt.Errorf("make a client: %w", err)
	}
	if o.Topologies, err = topologyclient.NewForConfig(config); err != nil {
		return agent.Options{}, fmt.Errorf("make a client: %w", err)
	}
	kubelet := agent.KubeletClient{Config: config, CAFile: f.kubeletCA}
	o.Kubelet = func(ctx context.Context) (control.Kubelet, error) {
		host, port, err := agent.KubeletAddress(ctx, o.Client, f.nodeName)
		if err != nil {
			return control.Kubelet{}, err
		}
		return kubelet.Get(ctx, host, port)
	}
	o.StaticPods = func(ctx context.Context) (map[ledger.PodID]types.NamespacedName, error) {
		host, port, err := agent.KubeletAddress(ctx, o.Client, f.nodeName)
		if err != nil {
			return nil, err
		}
		return kubelet.StaticPods(ctx, host, port)
	}
	return o, nil
}

// readKeys reads the public keys of the schedulers whose allocations count, nil when no
// file is named.
func readKeys(path string, log *slog.Logger) (*api.Keys, error) {
	if path == "" {
		log.Warn("allocations are believed without a signature, so whoever may write annotations of pods can take CPUs; give --allocation-keys")
		return nil, nil //nolint:nilnil // no keys believe everything
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--allocation-keys: %w", err)
	}
	keys, err := api.ParsePublicKeys(text)
	if err != nil {
		return nil, fmt.Errorf("--allocation-keys %s: %w", path, err)
	}
	return api.NewKeys(keys...), nil
}

// reviews is a client with a rate limit of its own.
func (f *nodeFlags) reviews() (kubernetes.Interface, error) {
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, usage.Errorf("this is no pod of a cluster: name a kubeconfig file with --kubeconfig")
		}
		return config, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return config, nil
}
