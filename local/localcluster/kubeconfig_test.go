package localcluster

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"pinfold.dev/pinfold/test/must"
)

func testKubeconfig(t *testing.T, server string) *clientcmdapi.Config {
	t.Helper()
	ca := testAuthority(t)
	user := must.Get(ca.client("somebody"))(t)
	return newKubeconfig(server, ca.certificate, user)
}

// testLayout returns an empty data directory.
func testLayout(t *testing.T) layout { return layout{t.TempDir()} }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestKubeconfigIsCompleteAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deeper", "kubeconfig")
	must.Do(t, testLayout(t).exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1234")))
	info := must.Get(os.Stat(path))(t)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v lets others read the key", info.Mode())
	}
	config := must.Get(clientcmd.BuildConfigFromFlags("", path))(t)
	if config.Host != "https://127.0.0.1:1234" {
		t.Errorf("host %q", config.Host)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatalf("the credentials cannot be used: %v", err)
	}
	if tlsConfig.RootCAs == nil {
		t.Error("any server is trusted")
	}
}

// TestExportWritesOneFile checks that an export changes no other file in its directory, and follows
// no link there.
func TestExportWritesOneFile(t *testing.T) {
	dir := t.TempDir()
	path, letter := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "letter")
	must.Do(t, os.WriteFile(letter, []byte("dear"), 0o600))
	must.Do(t, os.Symlink(letter, path+temporarySuffix))
	must.Do(t, testLayout(t).exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1234")))
	if text, err := os.ReadFile(letter); err != nil || string(text) != "dear" {
		t.Errorf("the letter is %q (%v)", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("files %v (%v), want three", entries, err)
	}
}

func TestForeignKubeconfigIsKept(t *testing.T) {
	path, l := filepath.Join(t.TempDir(), "config"), testLayout(t)
	must.Do(t, l.exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1")))
	foreign := testKubeconfig(t, "https://127.0.0.1:1")
	foreign.Clusters["production"] = &clientcmdapi.Cluster{Server: "https://production.example:6443"}
	must.Do(t, writeKubeconfig(path, foreign))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	err = testLayout(t).exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1"))
	if err == nil || !strings.Contains(err.Error(), "other clusters") {
		t.Errorf("export over a foreign kubeconfig: %v", err)
	}
	if err := l.withdrawKubeconfig(quiet()); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the foreign kubeconfig changed (%v)", err)
	}
}

func TestKubeconfigIsReplacedAndWithdrawn(t *testing.T) {
	path, first, second := filepath.Join(t.TempDir(), "config"), testLayout(t), testLayout(t)
	must.Do(t, first.exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1")))
	must.Do(t, second.exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:2")))
	// The first cluster ends after the second has replaced its file.
	must.Do(t, first.withdrawKubeconfig(quiet()))
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("one cluster removed the kubeconfig of another: %v", err)
	}
	must.Do(t, second.withdrawKubeconfig(quiet()))
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
	if err := second.withdrawKubeconfig(quiet()); err != nil {
		t.Errorf("withdraw again: %v", err)
	}
}

// TestTemporaryKubeconfig checks that the temporary file of an interrupted export is removed.
func TestTemporaryKubeconfig(t *testing.T) {
	l, made := testLayout(t), filepath.Join(t.TempDir(), "made")
	path := filepath.Join(made, "kubeconfig")
	must.Do(t, l.exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1")))
	var e exported
	must.Do(t, readJSON(l.dir, exportedName, &e))
	must.Do(t, os.Rename(path, path+e.Suffix))
	must.Do(t, l.withdrawKubeconfig(quiet()))
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// TestForgedExportIsRejected checks that nothing is removed if the record names a directory that
// does not contain the kubeconfig, or a suffix that no temporary file has.
func TestForgedExportIsRejected(t *testing.T) {
	for want, forge := range map[string]func(e *exported, other string){
		"is not a parent directory": func(e *exported, other string) { e.Made[other] = "" },
		"is not the suffix":         func(e *exported, _ string) { e.Suffix = "" },
		`"/../other" is not the`:    func(e *exported, _ string) { e.Suffix = "/../other" },
	} {
		l, above := testLayout(t), t.TempDir()
		path, other := filepath.Join(above, "made", "kubeconfig"), filepath.Join(above, "other")
		must.Do(t, l.exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1")))
		must.Do(t, os.Mkdir(other, 0o700))
		var e exported
		must.Do(t, readJSON(l.dir, exportedName, &e))
		forge(&e, other)
		must.Do(t, l.writeJSON(exportedName, e))
		if err := l.withdrawKubeconfig(quiet()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		for _, kept := range []string{path, other} {
			if _, err := os.Stat(kept); err != nil {
				t.Error(err)
			}
		}
	}
}
