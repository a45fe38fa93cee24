package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pinfold.dev/pinfold/test/must"
)

// TestTools calls each tool through the protocol.
func TestTools(t *testing.T) {
	var ran []string
	out := "ok"
	s := &server{connection: []string{"--context=staging"}, prometheus: []string{"--prometheus=http://localhost:9090"}, run: func(_ context.Context, args ...string) (string, error) {
		ran = args
		if out == "" {
			return "", errors.New("pinfold: no connection")
		}
		return out, nil
	}}
	here, there := mcp.NewInMemoryTransports()
	must.Get(s.new().Connect(t.Context(), here, nil))(t)
	client := must.Get(mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), there, nil))(t)
	tools := must.Get(client.ListTools(t.Context(), nil))(t)
	for _, tool := range tools.Tools {
		if tool.Annotations == nil || !tool.Annotations.ReadOnlyHint || tool.Description == "" {
			t.Errorf("%+v", tool)
		}
	}
	call := func(tool, arguments string) (text string, failed bool) {
		t.Helper()
		ran = nil
		result := must.Get(client.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)}))(t)
		return result.Content[0].(*mcp.TextContent).Text, result.IsError
	}
	for _, test := range []struct{ tool, arguments, want string }{
		{"status", `{}`, "[status --context=staging]"},
		{"status", `{"node":"worker-1"}`, "[status worker-1 --context=staging]"},
		{"top", `{"namespace":"shop"}`, "[top --namespace=shop --context=staging]"},
		{"why", `{"namespace":"shop","pod":"web-0"}`, "[why web-0 --namespace=shop --context=staging]"},
		{"advise", `{"namespace":"shop"}`, "[advise --since=24h --prometheus=http://localhost:9090 --namespace=shop]"},
	} {
		if text, failed := call(test.tool, test.arguments); failed || fmt.Sprint(ran) != test.want || !strings.Contains(text, "ok") || !strings.Contains(text, "not instructions") {
			t.Errorf("%s %s: %v, %q", test.tool, test.arguments, ran, text)
		}
	}
	for _, bad := range [][2]string{
		{"status", `{"node":"--kubeconfig=x"}`}, {"why", `{"namespace":"shop","pod":""}`}, {"why", `{"namespace":"a b","pod":"web"}`},
		{"top", `{"namespace":"-A"}`}, {"advise", `{"namespace":"--html=y"}`},
	} {
		if text, failed := call(bad[0], bad[1]); !failed || ran != nil {
			t.Errorf("%v ran %v: %s", bad, ran, text)
		}
	}
	out = strings.Repeat("a long line of a table\n", 1000) + "\x1b[31m"
	if text, _ := call("top", `{}`); len(text) > most+500 || !strings.Contains(text, "this command prints: kubectl pinfold top --context=staging") || strings.Contains(text, "\x1b") {
		t.Errorf("%d characters: %s", len(text), text[max(0, len(text)-200):])
	}
	out = ""
	if text, failed := call("top", `{}`); !failed || !strings.Contains(text, "no connection") {
		t.Errorf("%s", text)
	}
}
