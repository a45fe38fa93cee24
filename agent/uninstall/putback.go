package uninstall

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
)

// beforeAnnotation keeps, as JSON, what a DaemonSet was: whoever is interrupted, the next uninstall
// can put it back.
const beforeAnnotation = "pinfold.dev/before-uninstall"

// before is what [removal.run] changes of a DaemonSet. Managers are put back, too: Helm 4 refuses to
// change a field that another manager has written.
type before struct {
	Template       corev1.PodTemplateSpec         `json:"template"`
	UpdateStrategy appsv1.DaemonSetUpdateStrategy `json:"updateStrategy"`
	ManagedFields  []metav1.ManagedFieldsEntry    `json:"managedFields"`
}

// Putting back has to end within the grace period of the Job's pod, 30 s, of which replacing the
// pods gets a part.
const (
	backWithin    = 25 * time.Second
	replaceWithin = 10 * time.Second
)

// putBack makes the DaemonSet what it was, so that its agents run again.
func (r removal) putBack(ctx context.Context) error {
	set, err := r.client.AppsV1().DaemonSets(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !cleansUp(set.Spec.Template.Spec) {
		return nil
	}
	var was before
	if err == nil {
		err = json.Unmarshal([]byte(set.Annotations[beforeAnnotation]), &was)
	}
	if err == nil {
		set, err = r.patch(ctx, operation{"replace", "/spec/template", was.Template})
	}
	if err == nil {
		// With its own strategy a node that is down could keep the others from being replaced.
		r.awaitAgents(ctx, set.Generation)
		_, err = r.patch(ctx, operation{"replace", "/spec/updateStrategy", was.UpdateStrategy},
			operation{"remove", "/metadata/annotations/" + strings.ReplaceAll(beforeAnnotation, "/", "~1"), nil})
	}
	if err == nil { // apart, because the patch before makes its client a manager of what it writes
		_, err = r.patch(ctx, operation{"add", "/metadata/managedFields", was.ManagedFields})
	}
	if err != nil {
		return fmt.Errorf("put back DaemonSet %s, so that its agents run again: %w", r, err)
	}
	r.progress("the agents run again")
	return nil
}

// awaitAgents waits until the pods that clean up are deleted.
func (r removal) awaitAgents(ctx context.Context, generation int64) {
	ctx, cancel := context.WithTimeout(ctx, replaceWithin)
	defer cancel()
	for {
		set, pods, err := r.pods(ctx)
		if err == nil && set.Status.ObservedGeneration >= generation &&
			!slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && cleansUp(p.Spec) }) {
			return
		}
		if !sleep.For(ctx, pollEvery) {
			return
		}
	}
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func (r removal) patch(ctx context.Context, operations ...operation) (*appsv1.DaemonSet, error) {
	data, err := json.Marshal(operations)
	if err != nil {
		return nil, err
	}
	return r.client.AppsV1().DaemonSets(r.Namespace).Patch(ctx, r.Name, types.JSONPatchType, data, metav1.PatchOptions{})
}

// maxEvent is how long the message of an event may be, in bytes.
const maxEvent = 1024

// failed creates an event on the DaemonSet.
func (r removal) failed(ctx context.Context, why error) error {
	set, err := r.client.AppsV1().DaemonSets(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		now := metav1.Now()
		_, err = r.client.CoreV1().Events(r.Namespace).Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: r.Name + "-", Namespace: r.Namespace},
			InvolvedObject: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: r.Namespace, Name: r.Name, UID: set.UID},
			Type:           corev1.EventTypeWarning, Reason: "UninstallFailed", Message: api.Shorten(why.Error(), maxEvent),
			Source: corev1.EventSource{Component: "pinfold-uninstall"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("create an event on DaemonSet %s: %w", r, err)
	}
	return nil
}
