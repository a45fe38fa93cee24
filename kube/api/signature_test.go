package api

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/must"
)

func newKey(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func signedAllocation(at time.Time) Allocation {
	return Allocation{Version: 1, Node: "n", Policy: placement.Static, Time: at, Containers: []ContainerAllocation{
		{Name: "main", CPUs: cpuset.MustParse("2-3"), NUMANodes: []topology.NUMAID{0}}}}
}

// An allocation is accepted only if a known key has signed it for this pod.
func TestSignedAllocations(t *testing.T) {
	ours, private := newKey(t)
	next, nextPrivate := newKey(t)
	_, foreign := newKey(t)
	a := signedAllocation(time.Unix(1, 5))
	good := a.Sign("1", private)
	for _, test := range []struct {
		name, text string
		want       error
	}{
		{"signed", good, nil},
		{"signed with the next key", a.Sign("1", nextPrivate), nil},
		{"not signed", a.Encode(), errNotSigned},
		{"signed with another key", a.Sign("1", foreign), errSignature},
		{"signed for another pod", a.Sign("2", private), errSignature},
		{"other CPUs", strings.Replace(good, `"2-3"`, `"4-5"`, 1), errSignature},
		{"a later time", strings.Replace(good, "1970", "1971", 1), errSignature},
		{"white space", strings.Replace(good, ",", ", ", 1), errSignature},
		{"a field added", strings.Replace(good, `,"time"`, `,"more":1,"time"`, 1), errSignature},
		{"a field after the signature", strings.TrimSuffix(good, "}") + `,"more":1}`, errNotSigned},
		{"an empty signature", a.Encode()[:len(a.Encode())-1] + `,"signature":""}`, errSignature},
		{"a signature that is not base64", a.Encode()[:len(a.Encode())-1] + `,"signature":"?"}`, errSignature},
	} {
		keys, pod := NewKeys(ours, next), boundPod()
		pod.Annotations[AllocationAnnotation] = test.text
		for range 2 { // the second answer is a remembered one
			claim, err := keys.Claim(pod, nil)
			if !errors.Is(err, test.want) || (err == nil) != (len(claim.Containers) == 1) {
				t.Errorf("%s: claim %v, error %v; want error %v", test.name, claim, err, test.want)
			}
		}
		if _, err := Claim(pod, nil); err != nil {
			t.Errorf("%s, without keys: %v", test.name, err)
		}
	}
}

// An edited allocation is rejected.
func TestNoEditOfASignedAllocationCounts(t *testing.T) {
	public, private := newKey(t)
	good := signedAllocation(time.Unix(1, 5)).Sign("1", private)
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(good)).Draw(t, "at")
		to := rapid.IntRange(at, min(len(good), at+3)).Draw(t, "to")
		text := good[:at] + rapid.StringMatching(`[0-9a-zA-Z"{},: =+/-]{0,3}`).Draw(t, "with") + good[to:]
		pod := boundPod()
		pod.Annotations[AllocationAnnotation] = text
		claim, err := NewKeys(public).Claim(pod, nil)
		if (err == nil) != (text == good) || (err == nil) != (len(claim.Containers) > 0) {
			t.Fatalf("%s: %v, %v", text, claim, err)
		}
	})
}

// A pod that released its CPUs does not take them from the pod that got them next, regardless of
// the times of binding and of what its allocation says. Without keys, the pod that was bound first
// keeps them.
func TestRestoredAllocationLoses(t *testing.T) {
	public, private := newKey(t)
	claims := func(keys *Keys) []ledger.Claim {
		var all []ledger.Claim
		for i, uid := range []types.UID{"first", "second"} {
			pod := boundPod()
			pod.UID = uid
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.Unix(int64(100+i), 0)}}
			pod.Annotations[AllocationAnnotation] = signedAllocation(time.Unix(100, int64(i))).Sign(pod.UID, private)
			claim := must.Get(keys.Claim(pod, nil))(t)
			all = append(all, claim)
		}
		return all
	}
	index := placement.NewIndex(claimMachine(t))
	for loser, keys := range map[ledger.PodID]*Keys{"first": NewKeys(public), "second": nil} {
		conflicts := ledger.New(index, ledger.Config{}, claims(keys)...).Conflicts()
		if len(conflicts) != 1 || conflicts[0].ID != loser {
			t.Errorf("with keys %v: conflicts %v, want that %s loses", keys, conflicts, loser)
		}
	}
}

// Allocations of any length take little memory in the scheduler, and none once the pod is gone.
func TestVerifiedTextsAreSmall(t *testing.T) {
	public, _ := newKey(t)
	keys := NewKeys(public)
	filler := strings.Repeat("x", 1<<18)
	pods := make([]*corev1.Pod, 300) // 75 MiB
	before := heap()
	for i := range pods {
		pods[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(i))}}
		text := func() string { return fmt.Sprint(`{"filler":"`, i, filler, `","signature":"AA=="}`) }
		if err := keys.verify(pods[i].UID, text()); !errors.Is(err, errSignature) {
			t.Fatal(err)
		}
		if i < 10 {
			pods[i].Annotations = map[string]string{AllocationAnnotation: text()}
			keys.Forget(pods[i])
			pods[i].Annotations = nil
		}
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d MiB are kept of %d MiB", grown>>20, len(pods)*len(filler)>>20)
	}
	if n := keys.verified.Len(); n != len(pods)-10 {
		t.Errorf("%d answers are kept, want those of %d pods", n, len(pods)-10)
	}
	runtime.KeepAlive(keys)
}

func heap() int {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int(memory.HeapAlloc)
}

func TestParseKeys(t *testing.T) {
	public, private := newKey(t)
	der := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	publicDER := must.Get(x509.MarshalPKIXPublicKey(public))(t)
	privatePEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER})
	if key, err := ParsePrivateKey(privatePEM); err != nil || !key.Equal(private) {
		t.Errorf("private key: %v", err)
	}
	keys, err := ParsePublicKeys(append(publicPEM, publicPEM...))
	if err != nil || len(keys) != 2 || !keys[1].Equal(public) {
		t.Errorf("public keys: %v, %v", keys, err)
	}
	bad := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	badPublic := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})
	for text, want := range map[string]string{"": "it holds no private key", string(publicPEM): "it holds no private key", string(bad): "read the private key",
		string(privatePEM) + string(privatePEM): "after the private key"} {
		if _, err := ParsePrivateKey([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("private key %q: %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{"": "it holds no public key", string(privatePEM): "only public keys belong there",
		string(publicPEM) + "rest": "after 1 public keys", string(badPublic): "read public key 1"} {
		if _, err := ParsePublicKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("public keys %q: %v, want %s", text, err, want)
		}
	}
}

func boundPod() *corev1.Pod {
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "1", Annotations: map[string]string{CPUSetSchedulerAnnotation: "true",
			AllocationAnnotation: `{"version":1,"node":"n","policy":"static","containers":[{"name":"main","cpus":"2-3","numaNodes":[0]}]}`}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: two, Limits: two}}}},
	}
}
