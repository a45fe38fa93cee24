package survey

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/test/must"
)

// TestReadDaemonSets: a DaemonSet whose pods are refused is read in the namespaces of Pinfold. Without the
// right to list it, the rest is read and a note says so: older roles lack that right.
func TestReadDaemonSets(t *testing.T) {
	lists := map[string]string{
		"/api/v1/nodes": `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1"}}]}`,
		"/apis/apps/v1/namespaces/pinfold-system/daemonsets": `{"kind":"DaemonSetList","apiVersion":"apps/v1","items":[
			{"metadata":{"namespace":"pinfold-system","name":"agents","labels":{"app.kubernetes.io/name":"pinfold-agent"}},"status":{"desiredNumberScheduled":1}}]}`,
	}
	forbidden := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if forbidden != "" && strings.HasSuffix(r.URL.Path, forbidden) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
			return
		}
		list := lists[r.URL.Path]
		if kind := map[string]string{"pods": "v1 PodList", "leases": "coordination.k8s.io/v1 LeaseList", "daemonsets": "apps/v1 DaemonSetList", "deployments": "apps/v1 DeploymentList",
			"nodetopologies": "pinfold.dev/v1alpha1 NodeTopologyList"}[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]; list == "" {
			version, kind, _ := strings.Cut(kind, " ")
			list = fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"items":[]}`, kind, version)
		}
		fmt.Fprint(w, list)
	}))
	t.Cleanup(server.Close)
	client := must.Get(NewClient(&rest.Config{Host: server.URL}, "pinfold-system"))(t)

	for _, node := range []string{"", "n1"} {
		forbidden = ""
		r := must.Get(client.Read(t.Context(), node))(t).Report()
		if missing := r.Of(status.Error); len(missing) != 1 || missing[0].Kind != status.AgentMissing || !strings.Contains(missing[0].Message, "DaemonSet pinfold-system/agents wants") {
			t.Errorf("node %q: %+v", node, r.Problems)
		}
		forbidden = "/daemonsets"
		r = must.Get(client.Read(t.Context(), node))(t).Report()
		if noted := slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, "may not list the DaemonSets") }); len(r.Unread) > 0 || !noted {
			t.Errorf("node %q, without the right: not read %+v, notes %q", node, r.Unread, r.Notes)
		}
	}
}
