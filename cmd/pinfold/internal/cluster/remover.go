package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/internal/sleep"
)

// removePod is the hidden subcommand of the process that removes a pod.
const removePod = "remove-pod"

// remover starts a process that removes a pod when this one has ended, in whatever way, and returns
// a function that has it do so now. That also works if the process does not start.
func (s *session) remover(pod *corev1.Pod) (remove func() error, err error) {
	remove = func() error { return s.deleteSoon(pod.Namespace, pod.Name) }
	program, err := os.Executable()
	if err != nil {
		return remove, fmt.Errorf("find this program: %w", err)
	}
	child := exec.Command(program, append([]string{removePod, pod.Namespace, pod.Name}, s.connection.arguments()...)...)
	child.Args[0], child.SysProcAttr = os.Args[0], ownSession() // in which no ctrl-C reaches it
	var messages bytes.Buffer
	child.Stderr = &messages
	alive, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return remove, fmt.Errorf("start %s: %w", program, err)
	}
	return func() error {
		_ = alive.Close()
		if err := child.Wait(); err != nil {
			return fmt.Errorf("pod %s/%s is left, delete it: %w: %s", pod.Namespace, pod.Name, err, strings.TrimSpace(messages.String()))
		}
		return nil
	}, nil
}

// removeTime is how long the API server may be away before a pod is left.
const removeTime = time.Minute

// deleteSoon deletes a pod, again and again until that succeeds.
func (s *session) deleteSoon(namespace, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	for {
		err := s.deletePod(ctx, namespace, name)
		if err == nil || !sleep.For(ctx, time.Second) {
			return err
		}
	}
}

// NewRemovePod returns the hidden subcommand that removes a pod when its input ends.
func NewRemovePod() *cobra.Command {
	o := &podOptions{}
	cmd := &cobra.Command{Use: removePod + " NAMESPACE POD", Short: "Remove a pod when standard input ends", Hidden: true, Args: cobra.ExactArgs(2)}
	o.AddFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		_, _ = io.Copy(io.Discard, cmd.InOrStdin())
		s, err := o.connect()
		if err != nil {
			return err
		}
		return s.deleteSoon(args[0], args[1])
	}
	return cmd
}
