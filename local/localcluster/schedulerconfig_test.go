package localcluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSchedulerConfig(t *testing.T) {
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\n"
	for _, test := range []struct {
		name, given, want, err string
	}{
		{
			name: "nothing given",
			want: head + "clientConnection:\n  burst: 10000\n  kubeconfig: /k\n  qps: 5000\nkind: KubeSchedulerConfiguration\n",
		},
		{
			name:  "given values are kept",
			given: head + "kind: KubeSchedulerConfiguration\nclientConnection: {qps: 7}\nparallelism: 3\n",
			want: head + "clientConnection:\n  burst: 10000\n  kubeconfig: /k\n  qps: 7\n" +
				"kind: KubeSchedulerConfiguration\nparallelism: 3\n",
		},
		{
			name:  "another election",
			given: head + "kind: KubeSchedulerConfiguration\nleaderElection: {renewDeadline: 10s, leaderElect: false}\n",
			want: head + "clientConnection:\n  burst: 10000\n  kubeconfig: /k\n  qps: 5000\nkind: KubeSchedulerConfiguration\n" +
				"leaderElection:\n  leaderElect: false\n  renewDeadline: 10s\n",
		},
		{
			name:  "another cluster",
			given: head + "kind: KubeSchedulerConfiguration\nclientConnection: {kubeconfig: /home/me/.kube/config}\n",
			err:   "leave clientConnection.kubeconfig out",
		},
		{name: "other kind", given: "kind: Pod\n", err: "kind is Pod"},
		{name: "no kind", given: "parallelism: 3\n", err: "kind is <nil>"},
		{name: "no YAML", given: "\t", err: "read the scheduler's configuration"},
		{
			name:  "odd connection",
			given: head + "kind: KubeSchedulerConfiguration\nclientConnection: 3\n",
			err:   "clientConnection",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := schedulerConfig([]byte(test.given), "/k")
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
