package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/agent/claims"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/must"
)

// claimsFlags are the flags of an agent that serves resource claims on the node.
func (c *cluster) claimsFlags() []string {
	return []string{"--claims=numa", "--kubelet-dir=" + filepath.Join(c.dir, "node", "kubelet"), "--cdi-dir=" + filepath.Join(c.dir, "node", "cdi")}
}

// createClass creates the device class and a template for claims of one CPU, both named like the
// driver.
func (c *cluster) createClass(t *testing.T) {
	t.Helper()
	api := c.client.ResourceV1()
	must.Get(api.DeviceClasses().Create(t.Context(), &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: dra.Driver},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", dra.Driver)}}}}}, metav1.CreateOptions{}))(t)
	must.Get(api.ResourceClaimTemplates(metav1.NamespaceDefault).Create(t.Context(), &resourceapi.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "one-cpu"},
		Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: oneCPU()}}, metav1.CreateOptions{}))(t)
}

// oneCPU is a claim of one CPU.
func oneCPU() resourceapi.ResourceClaimSpec {
	return resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{{Name: "cpus", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: dra.Driver,
			Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse("1")}},
		}}}}}
}

// claiming returns a pod whose container uses a claim of one CPU, which it requests.
func claiming(name, port string) *corev1.Pod {
	one := container("main", port, "1")
	one.Resources.Requests[corev1.ResourceCPU], one.Resources.Claims = resource.MustParse("1"), []corev1.ResourceClaim{{Name: "exclusive"}}
	pod := podOf(name, "", one)
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "exclusive", ResourceClaimTemplateName: new("one-cpu")}}
	return pod
}

// TestClaims checks the DRA driver under the stock kube-scheduler: a claim gets its pod an exclusive
// CPU, which the container and the claim's status name. Agents that are killed, with and without
// what they have saved, change nothing. When the pod has gone, another one gets the CPU.
func TestClaims(t *testing.T) {
	requireNode(t)
	c := startWith(t, "--stock")
	must.Do(t, simnode.InstallCRD(t.Context(), connection(t, filepath.Join(c.dir, "kubeconfig"))))
	runDir := t.TempDir()
	agent := c.startAgent(t, runDir, c.claimsFlags()...)
	c.createClass(t)
	k := openKernel(t)

	first := c.run(t, claiming("first", "8001"))
	group := k.containerGroup(first, "main")
	own := must.Get(k.groups.Read(group))(t).CPUs
	if own.Len() != 1 {
		t.Fatalf("the first pod has CPUs %q", own)
	}
	holds := func() error {
		return errors.Join(k.expectContainer(first, "main", settings{cpus: own, quota: bandwidth.Unlimited}), k.expectNobodyElseOn(own, group))
	}
	eventually(t, "the first pod's settings", holds)
	seen := k.seenBy(t, group)
	if want := own.String(); seen.variable != want || seen.file != want+"\n" {
		t.Errorf("the container sees %+v, want CPUs %s", seen, want)
	}
	claim := c.claimOf(t, first)
	if len(claim.Status.Devices) != 1 || string(claim.Status.Devices[0].Data.Raw) != fmt.Sprintf(`{"container":"main","cpus":%q}`, own) {
		t.Errorf("the claim's status is %+v", claim.Status)
	}

	for _, before := range []func(){func() {}, func() { must.Do(t, os.Remove(agent.saved)) }} {
		agent.kill()
		must.Do(t, holds())
		before()
		agent = c.startAgent(t, runDir, c.claimsFlags()...)
		eventually(t, "the file with the CPUs", func() error {
			_, err := os.Stat(agent.saved)
			return err
		})
		must.Do(t, holds())
	}
	c.remove(t, "first")
	second := c.run(t, claiming("second", "8002"))
	eventually(t, "the second pod's settings", func() error {
		return k.expectContainer(second, "main", settings{cpus: own, quota: bandwidth.Unlimited})
	})
	eventually(t, "no files of the first claim", func() error {
		files, err := filepath.Glob(filepath.Join(c.dir, "node", "cdi", "*"+string(claim.UID)+"*"))
		if err != nil || len(files) > 0 {
			return fmt.Errorf("%v, %w", files, err)
		}
		return nil
	})
	c.remove(t, "second")
}

// eventuallySaid waits for an event of a pod.
func (c *cluster) eventuallySaid(t *testing.T, pod, text string) {
	t.Helper()
	eventually(t, "an event of pod "+pod, func() error {
		events, err := c.client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("events %+v", events.Items)
	})
}

// claimOf returns the only claim of a pod.
func (c *cluster) claimOf(t *testing.T, pod *corev1.Pod) *resourceapi.ResourceClaim {
	t.Helper()
	pod = must.Get(c.client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}))(t)
	if len(pod.Status.ResourceClaimStatuses) != 1 {
		t.Fatalf("pod %s has claims %+v", pod.Name, pod.Status.ResourceClaimStatuses)
	}
	return must.Get(c.client.ResourceV1().ResourceClaims(pod.Namespace).Get(t.Context(), *pod.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{}))(t)
}

// seen is what a container sees of its CPUs.
type seen struct{ variable, file string }

// seenBy returns what the first process of a container sees.
func (k kernel) seenBy(t *testing.T, group string) (s seen) {
	t.Helper()
	processes := must.Get(cgrouptree.ProcessesIn(k.groups.Dir(cgroup.CPUSet, group)))(t)
	if len(processes) == 0 {
		t.Fatalf("no process runs in %s", group)
	}
	dir := filepath.Join("/proc", fmt.Sprint(processes[0]))
	for entry := range bytes.SplitSeq(must.Get(os.ReadFile(filepath.Join(dir, "environ")))(t), []byte{0}) {
		if value, ok := strings.CutPrefix(string(entry), claims.Variable+"="); ok {
			s.variable = value
		}
	}
	s.file = string(must.Get(os.ReadFile(filepath.Join(dir, "root/var/run/pinfold/assigned.cpuset")))(t))
	return s
}
