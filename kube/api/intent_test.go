package api

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
)

func TestParse(t *testing.T) {
	for _, file := range []string{"parse", "parse-errors", "settings"} {
		t.Run(file, func(t *testing.T) {
			runTranscript(t, "testdata/"+file+".txt", func(pod *corev1.Pod) string {
				intent, err := Parse(pod)
				if err != nil {
					return "error: " + err.Error()
				}
				return describe(&intent)
			})
		})
	}
}

func roleName(r ledger.Role) string {
	return map[ledger.Role]string{ledger.RoleMain: "main", ledger.RoleSidecar: "sidecar", ledger.RoleInit: "init"}[r]
}

func describe(i *Intent) string {
	var b strings.Builder
	if i.Asks() {
		fmt.Fprintf(&b, "%s, full cores %s: %d CPUs\n", i.Ask.Policy, i.Ask.FullCores, i.Ask.CPUs())
		for _, c := range i.Ask.Containers {
			fmt.Fprintf(&b, "  %s %s: %d, request %v\n", roleName(c.Role), c.Name, c.CPUs, c.Request)
		}
	} else {
		b.WriteString("not placed\n")
	}
	fmt.Fprintf(&b, "shared request: %v\n", i.Ask.SharedRequest)
	if i.Class != "" {
		fmt.Fprintf(&b, "qos: %s\n", i.Class)
	}
	if i.Burst != (burst.Policy{}) {
		fmt.Fprintf(&b, "burst: %+v\n", i.Burst)
	}
	if i.Period != 0 {
		fmt.Fprintf(&b, "period: %v\n", i.Period)
	}
	for _, w := range i.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", w)
	}
	return b.String()
}
