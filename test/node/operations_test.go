package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/test/must"
)

// operationsPage is the page whose commands TestOperations executes.
const operationsPage = repositoryDir + "/docs/operations.md"

// localPage is the page on the node on which these tests run.
const localPage = repositoryDir + "/docs/local.md"

// TestOperations executes all commands of docs/operations.md, in their order, on a cluster that has
// nothing of Pinfold: installation, upgrade, rollback and removal, under running pods. In between
// it checks what the kernel has for the pods' containers.
func TestOperations(t *testing.T) {
	requireNode(t)
	helm := filepath.Join(repositoryDir, "bin", "helm4")
	if _, err := os.Stat(helm); err != nil {
		t.Skipf("%v: make bin/helm4", err)
	}
	p := readPage(t, operationsPage)
	from := publish(t, firstVersion, nextVersion)
	c := startWith(t, "--stock", "--images", from.images(firstVersion), "--images", from.images(nextVersion))
	c.chart = &installed{namespace: "pinfold-system", scheduler: "pinfold-scheduler"}
	o := newOperator(t, c, append(from.variables(), "NODE="+localnode.Name)...)
	for name, text := range p.files {
		o.write(name, text)
	}
	o.write("pinfold.pub", readFile(t, from.file("pinfold.pub")))
	o.write("values.yaml", merged(t, p.files["values.yaml"], o.siteValues()))
	var s *settled
	steps := map[string]func(do func(...string)){
		"key":    func(func(...string)) {}, // done
		"make":   func(func(...string)) {}, // done
		"doctor": func(do func(...string)) { do("--nri-socket=" + c.nriSocket(t)) },
		"no pod": func(do func(...string)) {
			do()
			s = settleOn(t, c)
			s.operator = o
			t.Run("rows", s.testRows)
			t.Run("node", s.testNode)
			t.Run("privileges", s.testPrivileges)
		},
		"delays": func(do func(...string)) {
			s.undisturbed(t, "delays", do)
			s.eventuallyTraced(t, s.pods["limited"])
		},
		"upgrade":  func(do func(...string)) { s.undisturbed(t, "upgrade", do) },
		"rollback": func(do func(...string)) { s.undisturbed(t, "rollback", do) },
		"uninstall": func(do func(...string)) {
			processes := s.processes(t)
			do()
			s.testRemoved(t)
			if after := s.processes(t); !slices.Equal(processes, after) {
				t.Errorf("processes of containers changed from %v to %v", processes, after)
			}
		},
	}
	for _, script := range p.scripts {
		do := func(flags ...string) {
			o.do(strings.Join(append([]string{strings.TrimSpace(script.text)}, flags...), " "))
		}
		if step := steps[script.name]; step != nil {
			step(do)
			delete(steps, script.name)
		} else {
			do()
		}
	}
	if len(steps) > 0 {
		t.Errorf("%s has no commands with the names %q", operationsPage, slices.Sorted(maps.Keys(steps)))
	}
}

// write writes a file that the commands read.
func (o *operator) write(name, text string) {
	o.Helper()
	must.Do(o, os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o644))
}

// merged adds values to those of a page.
func merged(t *testing.T, page string, more map[string]any) string {
	t.Helper()
	values := map[string]any{}
	err := yaml.Unmarshal([]byte(page), &values)
	var text []byte
	if err == nil {
		for name, of := range more {
			if have, ok := values[name].(map[string]any); ok {
				maps.Copy(have, of.(map[string]any))
			} else {
				values[name] = of
			}
		}
		text, err = yaml.Marshal(values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// siteValues returns the values that docs/local.md says an installation on this node needs besides
// those of another page.
func (o *operator) siteValues() (values map[string]any) {
	o.Helper()
	server := must.Get(url.Parse(connection(o, filepath.Join(o.cluster.dir, "kubeconfig")).Host))(o)
	text := strings.NewReplacer("PORT", server.Port(), "RUN", filepath.Dir(o.cluster.nriSocket(o.T)), "DATA", o.cluster.dir,
		"systemd: false", fmt.Sprint("systemd: ", naming().Driver == kubepods.Systemd)).Replace(readPage(o.T, localPage).files["site.yaml"])
	must.Do(o, yaml.UnmarshalStrict([]byte(text), &values))
	return values
}

// agentPod returns the agent's pod of this node.
func (s *settled) agentPod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := s.client.CoreV1().Pods(s.chart.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pinfold-agent"})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("there are %d pods of the agent", len(pods.Items))
	}
	return &pods.Items[0], nil
}

// agentProcess returns the process in the agent's container.
func (s *settled) agentProcess(ctx context.Context) (int, error) {
	pod, err := s.agentPod(ctx)
	if err != nil {
		return 0, err
	}
	group := s.kernel.containerGroup(pod, "agent")
	if group == "" || pod.Status.Phase != corev1.PodRunning {
		return 0, fmt.Errorf("the agent does not run: %+v", pod.Status)
	}
	processes, err := cgrouptree.ProcessesIn(s.kernel.groups.Dir(cgroup.CPUSet, group))
	if err != nil || len(processes) != 1 {
		return 0, fmt.Errorf("the agent's container has processes %v (%w)", processes, err)
	}
	return processes[0], nil
}

// agentWeight is the weight that the agent's pod gets, as the request of a quarter of a CPU.
const agentWeight = 256

// testPrivileges checks what the agent's process may do on the node: it has no capabilities, gains
// none, and its system calls are filtered. It finds its own group and raises its pod's weight.
func (s *settled) testPrivileges(t *testing.T) {
	process := must.Get(s.agentProcess(t.Context()))(t)
	status := readFile(t, fmt.Sprintf("/proc/%d/status", process))
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Uid:\t0"} {
		if !strings.Contains(status, want) {
			t.Errorf("the agent's status has no %q:\n%s", want, status)
		}
	}
	eventually(t, "the weight of the agent's pod", func() error {
		pod, err := s.agentPod(t.Context())
		if err != nil {
			return err
		}
		group, want := s.kernel.podGroup(pod), kubepods.PodWeight(s.kernel.groups.Layout().CPU, agentWeight)
		if got, err := s.kernel.groups.ReadParts(group, cgroup.Parts{Weight: true}); err != nil || got.Weight != want {
			return fmt.Errorf("%s has weight %d, want %d (%w)", group, got.Weight, want, err)
		}
		return nil
	})
}

// undisturbed runs something and checks all the time that no container is moved, restarted or gets
// other settings. A pod that starts meanwhile gets its settings.
func (s *settled) undisturbed(t *testing.T, name string, run func(...string)) {
	t.Helper()
	processes := s.processes(t)
	stop, problems := make(chan struct{}), make(chan []error, 1)
	go func() {
		var found []error
		defer func() { problems <- found }()
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				// While no agent runs, new containers start on all CPUs: not expectNobodyElseOn.
				if err := s.checkRows(); err != nil && len(found) < 10 {
					found = append(found, err)
				}
			}
		}
	}()
	run()
	pod := s.run(t, podOf("during-"+name, "", container("main", "8001", "250m")))
	defer s.remove(t, pod.Name)
	eventually(t, "settings of a pod that came later", func() error {
		return s.kernel.expectSingle(pod, settings{cpus: s.shared, quota: 25 * time.Millisecond})
	})
	eventually(t, "settings of all containers", s.check)
	close(stop)
	if err := errors.Join(<-problems...); err != nil {
		t.Errorf("%s changed settings: %v", name, err)
	}
	if after := s.processes(t); !slices.Equal(processes, after) {
		t.Errorf("%s: processes of containers changed from %v to %v", name, processes, after)
	}
}

// testRemoved checks that the kernel has the settings of the kubelet for all containers, and the
// API nothing of Pinfold.
func (s *settled) testRemoved(t *testing.T) {
	const none, ms = bandwidth.Unlimited, time.Millisecond
	all := s.own.Union(s.shared)
	for name, quotas := range map[string]map[string]time.Duration{
		"static": {"": 120 * ms, "main": 100 * ms, "side": 20 * ms}, "burst": {"": 100 * ms, "main": 100 * ms},
		"bursting": {"": 70 * ms, "main": 50 * ms, "side": 20 * ms}, "limited": {"": 50 * ms, "main": 50 * ms},
		"before": {"": none, "main": none}, "batch": {"": 30 * ms, "main": 30 * ms},
	} {
		for container, quota := range quotas {
			want := settings{cpus: all, quota: quota}
			err := s.kernel.expectPod(s.pods[name], settings{quota: quota})
			if container != "" {
				err = s.kernel.expectContainer(s.pods[name], container, want)
			}
			if err != nil {
				t.Errorf("pod %s: %v", name, err)
			}
		}
	}
	if c, err := s.condition(t.Context()); err != nil || c.Type != "" {
		t.Errorf("the node has the condition %+v (%v)", c, err)
	}
	for _, kind := range []string{"nodetopologies", "clusterroles", "clusterrolebindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"-n pinfold-system leases", "-n pinfold-system all", "-n kube-system roles", "-n kube-system rolebindings"} {
		out := s.operator.do("kubectl get -o name " + kind)
		for line := range strings.Lines(out) {
			ofCluster := strings.Contains(line, "pinfold:kwok") || strings.Contains(line, "pinfold:kubelet-api")
			if strings.Contains(line, "pinfold") && !ofCluster || strings.Contains(line, localnode.Name) {
				t.Errorf("%s is left", strings.TrimSpace(line))
			}
		}
	}
}

// metricsToken returns a token with which the installed agent's metrics can be read.
func (s *cluster) metricsToken(t testing.TB) string {
	t.Helper()
	const name = "metrics-reader"
	ctx := t.Context()
	_, err := s.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = s.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}}, metav1.CreateOptions{})
	}
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = s.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}}}, metav1.CreateOptions{})
	}
	var token *authenticationv1.TokenRequest
	if err == nil || apierrors.IsAlreadyExists(err) {
		token, err = s.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}
