package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/kubelet"
	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
)

// nodeOptions are the flags that several commands share.
type nodeOptions struct {
	nodeName, kubeconfig, root, runDir, kubeletCA, leases string
	verbose                                               bool
	logFormat                                             string
}

func (f *nodeOptions) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.nodeName, "node-name", os.Getenv("NODE_NAME"), "the node's `NAME` (default: the variable NODE_NAME)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: the pod's service account)")
	flags.StringVar(&f.root, "host-root", "/", "`DIR` where the machine's root directory is mounted")
	flags.StringVar(&f.kubeletCA, "kubelet-ca", "", "`FILE` of certificates that sign the kubelet's; without it the cluster's CA counts, or that the kubelet's socket belongs to root of this machine")
}

// addWriter adds the flags of the commands that write settings.
func (f *nodeOptions) addWriter(flags *pflag.FlagSet) {
	f.add(flags)
	flags.StringVar(&f.runDir, "run-dir", "",
		"`DIR` for the lock, the report for status and what the next agent must know, which must belong to the agent's user; the agent closes it to others (default: run/pinfold below --host-root)")
	flags.StringVar(&f.leases, "lease-namespace", nodetopology.LeaseNamespace,
		"`NAMESPACE` of the agent's lease, which tells the scheduler that the agent works; empty for no lease")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every write")
	f.logFormat = logFormats[0]
	frame.OneOf(flags, &f.logFormat, "log-format", "how messages are written", logFormats...)
}

// logFormats are the values of --log-format, the default first.
var logFormats = []string{"text", "json"}

// apply checks the flags and sets the options that they determine.
func (f *nodeOptions) apply(o *agent.Options, stderr io.Writer) error {
	if f.nodeName == "" {
		return frame.Usagef("no node is named: give --node-name, or set NODE_NAME (in a pod: from spec.nodeName)")
	}
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	compact := rest.CopyConfig(config)
	compact.ContentType = runtime.ContentTypeProtobuf
	compact.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if o.Client, o.Topologies, err = newClients(compact); err != nil {
		return err
	}
	client := kubelet.Client{Client: o.Client, NodeName: f.nodeName, Config: config, CAFile: f.kubeletCA, Root: f.root}
	o.Kubelet, o.StaticPods = client.Configuration, client.StaticPods
	o.NodeName, o.Root, o.RunDir, o.LeaseNamespace = f.nodeName, f.root, f.runDir, f.leases
	o.Version = frame.Version().Version
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	if o.Log = slog.New(slog.NewTextHandler(stderr, options)); f.logFormat == "json" {
		o.Log = slog.New(slog.NewJSONHandler(stderr, options))
	}
	return nil
}

// newClients returns clients for the built-in resources and for topologies, with the limits of a
// kubelet's: with the lower ones that are the default, many claims of one pod would delay those of others.
func newClients(config *rest.Config) (kubernetes.Interface, nodetopology.Client, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	topologies, err := apiclient.New(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	return client, topologies, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, frame.Usagef("not running in a pod: name a kubeconfig file with --kubeconfig")
		}
		return config, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, frame.KubeconfigError(err)
	}
	return config, nil
}

// readCeilings reads the file of the ceilings. The agent must not start when that fails: pods would get more
// than the administrator allows.
func readCeilings(path string) (ceilings api.Ceilings, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return ceilings, fmt.Errorf("--ceilings: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return ceilings, fmt.Errorf("--ceilings %s: the file is empty: write {} to have only the built-in ceilings", path)
	}
	if ceilings, err = api.ParseCeilings(text); err != nil {
		return ceilings, fmt.Errorf("--ceilings %s: %w", path, err)
	}
	return ceilings, nil
}
