package versions

import (
	"encoding/json"
	"strings"
	"testing"

	info "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/compatibility"

	"pinfold.dev/pinfold/test/must"
)

// Kubernetes itself can emulate exactly the supported versions.
func TestSupported(t *testing.T) {
	effective := compatibility.DefaultBuildEffectiveVersion()
	for v := Oldest().SubtractMinor(1); v.Minor() <= Newest().Minor()+1; v = v.AddMinor(1) {
		effective.SetEmulationVersion(v)
		want := effective.Validate()
		if err := Check(v); (err == nil) != (len(want) == 0) {
			t.Errorf("%s: %v, but Kubernetes says %v", v, err, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{Oldest().String(), "v" + Newest().String(), "1.34+"} {
		if v, err := Parse(text); err != nil || v.String() != strings.Trim(text, "v+") {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
	for _, text := range []string{"", "1", "latest", "1.34.2", "134", "-1.34", Oldest().SubtractMinor(1).String(), Newest().AddMinor(1).String(), "2.0"} {
		if v, err := Parse(text); err == nil || !strings.Contains(err.Error(), strings.Join(Supported(), ", ")) {
			t.Errorf("%q: %v, %v; want an error that names the supported versions", text, v, err)
		}
	}
}

// The answers of servers of several providers.
func TestOf(t *testing.T) {
	for name, test := range map[string]struct{ answer, want string }{
		"plain":             {`{"major":"1","minor":"34","emulationMajor":"1","emulationMinor":"34","gitVersion":"v1.34.2"}`, "1.34"},
		"emulates":          {`{"major":"1","minor":"37","emulationMajor":"1","emulationMinor":"34","gitVersion":"v1.37.1"}`, "1.34"},
		"plus":              {`{"major":"1","minor":"34+","gitVersion":"v1.34.2-eks-3025e55"}`, "1.34"},
		"plus, emulation":   {`{"major":"1","minor":"35+","emulationMajor":"1","emulationMinor":"35+","gitVersion":"v1.35.0-gke.1234000"}`, "1.35"},
		"without emulation": {`{"major":"1","minor":"32","gitVersion":"v1.32.4+k3s1"}`, "1.32"},
		"only the build":    {`{"major":"","minor":"","gitVersion":"v1.36.0-aliyun.1"}`, "1.36"},
		"half":              {`{"major":"1","minor":"x","gitVersion":"v1.36.3-rc.1+d1"}`, "1.36"},
		"another major":     {`{"major":"2","minor":"0","gitVersion":"v2.0.0"}`, "2.0"},
		"nothing":           {`{}`, ""},
		"words":             {`{"major":"one","minor":"many","gitVersion":"unknown"}`, ""},
		"overflow":          {`{"major":"1","minor":"99999999999999999999999","gitVersion":"?"}`, ""},
	} {
		var server info.Info
		must.Do(t, json.Unmarshal([]byte(test.answer), &server))
		v, err := Of(&server)
		if test.want == "" {
			if err == nil {
				t.Errorf("%s: %s, want an error", name, v)
			}
		} else if err != nil || v.String() != test.want {
			t.Errorf("%s: %v, %v, want %s", name, v, err, test.want)
		}
	}
}
