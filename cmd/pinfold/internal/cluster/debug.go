package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/report/terminal"
)

// debugName is the label app.kubernetes.io/name of debug pods, and the beginning of their names.
const debugName = "pinfold-debug"

// debugOptions are about a pod in which the command runs where no agent can run it.
type debugOptions struct {
	debug bool
	image string
}

func (o *debugOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.debug, "debug", false, "where no agent can do it, run in a privileged pod on the node, and remove it at the end")
	flags.StringVar(&o.image, "debug-image", "", "the `IMAGE` of that pod, which has /pinfold (default that of an agent in the cluster, or of the release)")
}

// mayDebug reports whether the command may run in a pod of its own on each of some nodes: with --debug,
// or if the user says so. why is why no agent can run it. It returns why with what to do, if not.
func (s *session) mayDebug(cmd *cobra.Command, why error, nodes ...string) error {
	on := "the node"
	if len(nodes) > 1 {
		on = "each node"
	}
	if s.debug.image == "" {
		return fmt.Errorf("%w. Or give --debug and --debug-image IMAGE, the agent's image: then it runs in a privileged pod on %s, which is removed at the end", why, on)
	}
	if s.debug.debug {
		return nil
	}
	in, out := cmd.InOrStdin(), cmd.ErrOrStderr()
	if keys, ok := in.(io.Writer); !ok || !terminal.Is(keys) || !terminal.Is(out) {
		return fmt.Errorf("%w. Or give --debug: then it runs in a privileged pod on %s, which is removed at the end", why, on)
	}
	on = "node " + nodes[0]
	if more := len(nodes) - 1; more > 0 {
		on = fmt.Sprintf("each of %d nodes: %s", len(nodes), strings.Join(nodes[:min(len(nodes), nodeErrors)], ", "))
		if len(nodes) > nodeErrors {
			on += ", ..."
		}
	}
	fmt.Fprintf(out, "%v.\nRun it in a privileged pod instead, in namespace %s, with image %s, on %s?\nIt sees all processes and control groups there, and is removed at the end [y/N] ",
		why, s.namespace, s.debug.image, on)
	var answer string
	if _, err := fmt.Fscanln(in, &answer); err != nil || !slices.Contains([]string{"y", "yes"}, strings.ToLower(answer)) {
		return why
	}
	return nil
}

// ReleasedImage is the image of the agent in the release that the program is of. The linker sets it.
var ReleasedImage string

// findImage finds the image of an agent on any node, or else that of the release, unless one is given.
func (s *session) findImage(ctx context.Context, namespace string) {
	if s.debug.image != "" {
		return
	}
	list := &corev1.PodList{}
	err := s.pods.Get().Namespace(namespace).Resource("pods").VersionedParams(&metav1.ListOptions{LabelSelector: agentSelector, Limit: 1}, s.parameters).Do(ctx).Into(list)
	if err == nil && len(list.Items) > 0 { // without rights it is not known
		if c := agentContainer(&list.Items[0]); c != nil {
			s.debug.image = c.Image
			return
		}
	}
	s.debug.image = ReleasedImage
}

// debugPod returns a pod that runs a command on the node when somebody attaches to it. It has what
// the agent's pod has for this purpose, and all privileges, as one of "kubectl debug
// --profile=sysadmin".
func (s *session) debugPod(command []string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: debugName + "-", Labels: map[string]string{"app.kubernetes.io/name": debugName}},
		Spec: corev1.PodSpec{
			NodeName: s.node, HostPID: true, RestartPolicy: corev1.RestartPolicyNever,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			AutomountServiceAccountToken:  new(bool),
			TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: debugName, Image: s.debug.image, Command: command, Stdin: true, StdinOnce: true,
				SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64), RunAsNonRoot: new(bool)},
			}},
		},
	}
	mount := func(name, path string, kind corev1.HostPathType, readOnly bool) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/host" + path, ReadOnly: readOnly})
	}
	mount("cgroup", "/sys/fs/cgroup", corev1.HostPathDirectory, false) // sample --weight writes
	mount("devices", "/sys/devices", corev1.HostPathDirectory, true)
	mount("proc", "/proc", corev1.HostPathDirectory, true)
	mount("containers", "/var/log/containers", corev1.HostPathDirectoryOrCreate, true)
	if slices.ContainsFunc(command, func(arg string) bool { return strings.HasPrefix(arg, "--weight") }) {
		mount("run", "/run/pinfold", corev1.HostPathDirectoryOrCreate, false) // the weights from before outlive the pod
	}
	return pod
}

// runInPod runs a command in a pod of its own, and removes that.
func (s *session) runInPod(ctx context.Context, command []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	pod := &corev1.Pod{}
	err = s.pods.Post().Namespace(s.namespace).Resource("pods").Body(s.debugPod(append(command, "--await-input"))).Do(ctx).Into(pod)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("you may not create privileged pods in namespace %s, or it does not admit them: %w", s.namespace, err)
	} else if err != nil {
		return fmt.Errorf("create a pod on node %s: %w", s.node, err)
	}
	remove, err := s.remover(pod)
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil {
		return err
	}
	if err := s.awaitRunning(ctx, pod); err != nil {
		return err
	}
	request := s.pods.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("attach").
		VersionedParams(&corev1.PodAttachOptions{Container: debugName, Stdin: true, Stdout: true, Stderr: true}, s.parameters)
	if err := s.stream(ctx, request.URL(), remotecommand.StreamOptions{Stdin: io.MultiReader(strings.NewReader("\n"), stdin), Stdout: stdout, Stderr: stderr}); err != nil {
		return fmt.Errorf("attach to pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return s.exitOf(context.WithoutCancel(ctx), pod)
}

// startTime is how long a debug pod may take to start, mostly to pull its image, and endTime how
// long its end may take to show.
const startTime, endTime = 2 * time.Minute, 10 * time.Second

// awaitRunning waits until the pod's container runs.
func (s *session) awaitRunning(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	why := "it has not started"
	for sleep.For(ctx, 200*time.Millisecond) {
		if err := s.get(ctx, pod); err != nil {
			return err
		}
		state := containerState(pod)
		if state.Running != nil {
			return nil
		}
		if state.Terminated != nil || pod.Status.Phase == corev1.PodFailed {
			return fmt.Errorf("the pod on node %s has ended: %s", s.node, cmp.Or(pod.Status.Message, "its container has, too"))
		}
		if w := state.Waiting; w != nil && w.Message != "" {
			if why = w.Reason + ": " + w.Message; w.Reason != "ContainerCreating" && w.Reason != "ErrImagePull" { // a pull is tried again
				break
			}
		}
	}
	return fmt.Errorf("the pod on node %s does not start: %s", s.node, why)
}

// exitOf returns a command's status as an error, unless that is 0.
func (s *session) exitOf(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	for {
		if err := s.get(ctx, pod); err != nil {
			return err
		}
		switch ended := containerState(pod).Terminated; {
		case ended != nil && ended.ExitCode == 0:
			return nil
		case ended != nil:
			return exited(int(ended.ExitCode), "pod "+pod.Name)
		case !sleep.For(ctx, 100*time.Millisecond):
			return fmt.Errorf("pod %s/%s has not ended: the result may be incomplete", pod.Namespace, pod.Name)
		}
	}
}

func (s *session) get(ctx context.Context, pod *corev1.Pod) error {
	return s.pods.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Do(ctx).Into(pod)
}

func containerState(pod *corev1.Pod) corev1.ContainerState {
	for _, c := range pod.Status.ContainerStatuses {
		return c.State
	}
	return corev1.ContainerState{}
}

// deletePod deletes a pod, unless it is gone.
func (s *session) deletePod(ctx context.Context, namespace, name string) error {
	now := &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	err := s.pods.Delete().Namespace(namespace).Resource("pods").Name(name).Body(now).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
