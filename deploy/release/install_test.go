package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"pinfold.dev/pinfold/test/checkout"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestGoInstall serves the module as a module proxy does, and installs the command from it as "go install
// pinfold.dev/pinfold/cmd/pinfold@v0.1.0" does: into an empty module cache, which then has no part
// of Kubernetes' own repository and none of etcd.
func TestGoInstall(t *testing.T) {
	need.This(t, "the go command")
	source, proxy, modules, bin := checkout.Copy(t, version), t.TempDir(), t.TempDir(), t.TempDir()
	versions := filepath.Join(proxy, "pinfold.dev", "pinfold", "@v")
	must.Do(t, os.MkdirAll(versions, 0o755))
	for name, text := range map[string]string{"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`,
		version + ".mod": string(must.Get(os.ReadFile(filepath.Join(source, "go.mod")))(t))} {
		must.Do(t, os.WriteFile(filepath.Join(versions, name), []byte(text), 0o600))
	}
	archive := must.Get(os.Create(filepath.Join(versions, version+".zip")))(t)
	must.Do(t, zip.CreateFromVCS(archive, module.Version{Path: "pinfold.dev/pinfold", Version: version}, source, version, ""))
	must.Do(t, archive.Close())
	env := func(name string) string {
		return strings.TrimSpace(string(must.Get(exec.Command("go", "env", name).Output())(t)))
	}
	install := exec.CommandContext(t.Context(), "go", "install", "pinfold.dev/pinfold/cmd/pinfold@"+version)
	install.Dir = t.TempDir()
	install.Env = append(os.Environ(), "GOMODCACHE="+modules, "GOBIN="+bin, "GOFLAGS="+env("GOFLAGS")+" -modcacherw", "GONOSUMDB=*", "GONOPROXY=none",
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(env("GOMODCACHE"), "cache", "download")+","+env("GOPROXY"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out := must.Get(exec.CommandContext(t.Context(), filepath.Join(bin, "pinfold"), "version").CombinedOutput())(t)
	if !strings.Contains(string(out), version) {
		t.Errorf("the command is %s, want %s", out, version)
	}
	for path, want := range map[string]bool{"k8s.io/client-go@*": true, "k8s.io/kubernetes@*": false, "k8s.io/apiserver@*": false, "go.etcd.io": false} {
		if found := must.Get(filepath.Glob(filepath.Join(modules, path)))(t); want != (len(found) > 0) {
			t.Errorf("it downloads %q for %s", found, path)
		}
	}
}
