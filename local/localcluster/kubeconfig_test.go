package localcluster

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/test/must"
)

func TestKubeconfigIsCompleteAndPrivate(t *testing.T) {
	path, ca := filepath.Join(t.TempDir(), "kubeconfig"), testAuthority(t)
	must.Do(t, writeKubeconfig(path, "https://127.0.0.1:1234", ca.pem(), must.Get(ca.client("somebody"))(t)))
	if info := must.Get(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v lets others read the key", info.Mode())
	}
	config := must.Get(clientConfig(path))(t)
	if tls := must.Get(rest.TLSConfigFor(config))(t); config.Host != "https://127.0.0.1:1234" || tls.RootCAs == nil {
		t.Errorf("host %q, any server is trusted: %v", config.Host, tls.RootCAs == nil)
	}
}
