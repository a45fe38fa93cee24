package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// agentSelector selects the agents' pods.
const agentSelector = "app.kubernetes.io/name=pinfold-agent"

// agentContainer returns the agent's container of a pod of the chart, or nil.
func agentContainer(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == "agent" {
			return c
		}
	}
	return nil
}

// podOptions name a pod of the cluster, or a node.
type podOptions struct {
	Connection
	namespace, agentNamespace string
	node                      string
	debug                     debugOptions
}

func (o *podOptions) addFlags(cmd *cobra.Command) {
	o.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&o.namespace, "namespace", "n", "", "the pod's `NAMESPACE` (default that of the context; of a table of all nodes: all)")
	flags.StringVar(&o.agentNamespace, "agent-namespace", nodetopology.LeaseNamespace, "the agents run in `NAMESPACE`")
	o.debug.addFlags(cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if o.node == "" && (len(args) != 1 || args[0] == "") {
			or := ""
			if flags.Lookup("node") != nil {
				or = ", or --node NODE"
			}
			return frame.Usagef("%d pods are named: give one POD%s", len(args), or)
		}
		if namespace, pod, ok := strings.Cut(strings.Join(args, ""), "/"); ok {
			if flags.Changed("namespace") {
				return frame.Usagef("%s is not the name of a pod: give its name alone, for all its containers", args[0])
			}
			return frame.Usagef("%s is not the name of a pod: give -n %s %s, or %s alone if that is the pod", args[0], namespace, pod, namespace)
		}
		return nil
	}
}

// session runs commands in the agent's container on a pod's node, or in a pod of its own there.
type session struct {
	connection *Connection
	config     *rest.Config
	pods       rest.Interface
	parameters runtime.ParameterCodec
	node       string
	pod        *corev1.Pod       // nil for all of the node
	agent      *corev1.Pod       // nil: in a pod of its own
	container  *corev1.Container // of the agent
	namespace  string            // of the context, in which a pod of its own is made
	debug      debugOptions
}

// connect returns a session without a pod.
func (o *podOptions) connect() (*session, error) {
	// client-go logs what the errors of this command say as well.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	config, namespace, err := o.Config()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.GroupVersion, config.APIPath = &corev1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	s := &session{connection: &o.Connection, config: config, parameters: runtime.NewParameterCodec(scheme), node: o.node, namespace: namespace, debug: o.debug}
	if s.pods, err = rest.RESTClientFor(config); err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	return s, nil
}

// open finds the pod, if one is named, and what runs the command on its node: the agent, or a pod of
// its own. trace is what needs an agent that may trace, "" for nothing.
func (o *podOptions) open(ctx context.Context, cmd *cobra.Command, pods []string, trace string) (*session, error) {
	s, err := o.connect()
	if err != nil {
		return nil, err
	}
	for _, name := range pods {
		if err := s.findPod(ctx, cmp.Or(o.namespace, s.namespace), name); err != nil {
			return nil, Explain(ctx, s.config.Host, err)
		}
	}
	why := s.findAgent(ctx, o.agentNamespace)
	if why == nil && trace != "" && !s.mayTrace() {
		why = &unable{fmt.Sprintf("%s needs an agent that may trace, and that of node %s may not (agent.contention is false)", trace, s.node)}
	}
	if why == nil {
		return s, nil
	}
	if unable := (*unable)(nil); !errors.As(why, &unable) {
		return nil, Explain(ctx, s.config.Host, why)
	}
	if s.pod == nil {
		err := s.pods.Get().Resource("nodes").Name(s.node).Do(ctx).Error()
		if apierrors.IsNotFound(err) { // other errors, such as lacking rights, say nothing about it
			return nil, fmt.Errorf("node %s does not exist", s.node)
		}
	}
	s.findImage(ctx, o.agentNamespace)
	s.agent = nil
	return s, s.mayDebug(cmd, why, s.node)
}

// unable is why no agent can run a command.
type unable struct{ why string }

func (u *unable) Error() string { return u.why }

// findPod finds the pod and its node.
func (s *session) findPod(ctx context.Context, namespace, name string) error {
	s.pod = &corev1.Pod{}
	err := s.pods.Get().Namespace(namespace).Resource("pods").Name(name).Do(ctx).Into(s.pod)
	switch s.node = s.pod.Spec.NodeName; {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("pod %s/%s does not exist: is --namespace right?", namespace, name)
	case err != nil:
		return err
	case s.node == "":
		return fmt.Errorf("pod %s/%s has no node yet: 'kubectl pinfold status' says why pods wait", namespace, name)
	case s.pod.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("pod %s/%s is %s, not running", namespace, name, s.pod.Status.Phase)
	}
	return nil
}

// findAgent finds the agent on the node.
func (s *session) findAgent(ctx context.Context, namespace string) error {
	pods, err := s.agents(ctx, namespace, fields.OneTermEqualSelector("spec.nodeName", s.node))
	if err != nil {
		return fmt.Errorf("look for the agent of node %s: %w", s.node, err)
	}
	if len(pods) == 0 {
		return &unable{fmt.Sprintf("no agent runs on node %s in namespace %s: 'kubectl pinfold status %s' says more; --agent-namespace names another namespace",
			s.node, namespace, s.node)}
	}
	s.agent = &pods[0]
	if s.container = agentContainer(s.agent); s.container == nil {
		return fmt.Errorf("pod %s/%s has no container \"agent\": it is not an agent of Pinfold's chart", namespace, s.agent.Name)
	}
	return nil
}

// agents returns the agents' pods that run, of the pods with some fields.
func (s *session) agents(ctx context.Context, namespace string, selector fields.Selector) ([]corev1.Pod, error) {
	list, options := &corev1.PodList{}, &metav1.ListOptions{LabelSelector: agentSelector, FieldSelector: selector.String()}
	err := s.pods.Get().Namespace(namespace).Resource("pods").VersionedParams(options, s.parameters).Do(ctx).Into(list)
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil }), err
}

// mayTrace reports whether the agent's container may trace the scheduler.
func (s *session) mayTrace() bool {
	security := s.container.SecurityContext
	return security != nil && (security.Privileged != nil && *security.Privileged ||
		security.Capabilities != nil && slices.Contains(security.Capabilities.Add, "BPF") && slices.Contains(security.Capabilities.Add, "PERFMON"))
}

// arguments returns a command line of pinfold on the node.
func (s *session) arguments(command string, flags []string) []string {
	args := []string{"/pinfold", command, "--host-root=/host"}
	if s.pod != nil {
		id := "/" + string(s.pod.UID)
		if _, static := s.pod.Annotations[corev1.MirrorPodAnnotationKey]; static { // its groups have another
			id = ""
		}
		args = append(args, "--pod="+s.pod.Namespace+"/"+s.pod.Name+id)
	}
	return append(args, flags...)
}

// until is an input that is empty, and ends when the context does.
type until struct{ context.Context }

func (u until) Read([]byte) (int, error) {
	<-u.Done()
	return 0, io.EOF
}

// run runs a subcommand of pinfold about the pod or the node. The subcommand ends when its input
// does, with the result up to then. A failure that it has reported itself is a [frame.ExitError]
// with its status.
func (s *session) run(ctx context.Context, command string, flags []string, stdin io.Reader, stdout, stderr io.Writer) error {
	line := append(s.arguments(command, flags), "--remote")
	if s.agent == nil {
		return s.runInPod(ctx, line, stdin, stdout, stderr)
	}
	request := s.pods.Get().Namespace(s.agent.Namespace).Resource("pods").Name(s.agent.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: s.container.Name, Stdin: true, Stdout: true, Stderr: true, Command: line}, s.parameters)
	return s.explain(s.stream(ctx, request.URL(), remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr}))
}

// stream connects standard input and output with a process. Its end does not come from ctx.
func (s *session) stream(ctx context.Context, address *url.URL, options remotecommand.StreamOptions) error {
	config := rest.CopyConfig(s.config)
	config.Timeout = 0
	executor, err := remotecommand.NewWebSocketExecutor(config, "GET", address.String())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(context.WithoutCancel(ctx), options)
}

// piped is run with an input that is log when the context has ended. The output goes to read. end
// ends the context; so does an error of read.
func (s *session) piped(ctx context.Context, end func(), command string, flags []string, log io.Reader, stderr io.Writer, read func(io.Reader) error) error {
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := read(in)
		end()
		_, _ = io.Copy(io.Discard, in) // until the command has ended
		done <- err
	}()
	err := s.run(ctx, command, flags, io.MultiReader(until{ctx}, log), out, stderr)
	_ = out.Close() // never fails
	return errors.Join(<-done, err)
}

// exited is the error of a command that has ended with a status other than 0. It has said why itself,
// unless it was killed.
func exited(status int, where string) error {
	failure := &frame.ExitError{Status: status}
	if status > 2 {
		failure.Err = fmt.Errorf("pinfold in %s was ended with status %d: the result is incomplete", where, status)
	}
	return failure
}

// explain says what an error of exec means.
func (s *session) explain(err error) error {
	agent := s.agent.Namespace + "/" + s.agent.Name
	var exit exec.CodeExitError
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "/pinfold") && strings.Contains(err.Error(), "no such file"):
		return fmt.Errorf("the image of agent %s has no /pinfold: upgrade the agent", agent)
	case errors.As(err, &exit):
		return exited(exit.Code, "agent "+agent)
	case apierrors.IsForbidden(err) || strings.Contains(strings.ToLower(err.Error()), "forbidden"):
		return fmt.Errorf("you may not run a command in agent %s: it takes the verbs get and create of pods/exec in namespace %s (%w)", agent, s.agent.Namespace, err)
	}
	return fmt.Errorf("run pinfold in agent %s: %w", agent, err)
}

// changedFlags returns those flags of a set of names that the user has set, as arguments.
func changedFlags(cmd *cobra.Command, names ...string) (args []string) {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f.Changed {
			args = append(args, "--"+name+"="+f.Value.String())
		}
	}
	return args
}
