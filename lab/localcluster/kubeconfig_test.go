package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func testKubeconfig(t *testing.T, server string) *clientcmdapi.Config {
	t.Helper()
	ca := testAuthority(t)
	user, err := ca.client("somebody")
	if err != nil {
		t.Fatal(err)
	}
	return newKubeconfig(server, ca.certificate, user)
}

func TestKubeconfigIsCompleteAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deeper", "kubeconfig")
	if err := exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1234")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v lets others read the key", info.Mode())
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:1234" {
		t.Errorf("host %q", config.Host)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatalf("the credentials cannot be used: %v", err)
	}
	if tlsConfig.RootCAs == nil {
		t.Error("any server is believed")
	}
}

// Nothing beside an exported kubeconfig is touched, and no link there is followed.
func TestExportTouchesOneFile(t *testing.T) {
	dir := t.TempDir()
	path, letter := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "letter")
	if err := os.WriteFile(letter, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(letter, path+temporarySuffix); err != nil {
		t.Fatal(err)
	}
	if err := exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1234")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(letter); err != nil || string(text) != "dear" {
		t.Errorf("the letter is %q (%v)", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("files %v (%v), want three", entries, err)
	}
}

func TestForeignKubeconfigIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	foreign := testKubeconfig(t, "https://production.example:6443")
	foreign.Clusters["production"] = foreign.Clusters[contextName]
	if err := writeKubeconfig(path, foreign); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	err = exportKubeconfig(path, testKubeconfig(t, "https://127.0.0.1:1"))
	if err == nil || !strings.Contains(err.Error(), "other clusters") {
		t.Errorf("export over a foreign kubeconfig: %v", err)
	}
	if err := withdrawKubeconfig(path, "https://127.0.0.1:1"); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the foreign kubeconfig changed (%v)", err)
	}
}

func TestKubeconfigIsReplacedAndWithdrawn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	for _, server := range []string{"https://127.0.0.1:1", "https://127.0.0.1:2"} {
		if err := exportKubeconfig(path, testKubeconfig(t, server)); err != nil {
			t.Fatal(err)
		}
	}
	// The first cluster ends after the second has taken the file over.
	if err := withdrawKubeconfig(path, "https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("one cluster removed the kubeconfig of another: %v", err)
	}
	if err := withdrawKubeconfig(path, "https://127.0.0.1:2"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the kubeconfig is still there: %v", err)
	}
	if err := withdrawKubeconfig(path, "https://127.0.0.1:2"); err != nil {
		t.Errorf("withdraw what is gone: %v", err)
	}
}
