package localcluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/local/madedirs"
)

// contextName is the name of cluster, user and context in the kubeconfigs of local clusters.
const contextName = "pinfold-local"

// newKubeconfig returns a kubeconfig that refers to no other file.
func newKubeconfig(server string, ca []byte, user keyPair) *clientcmdapi.Config {
	return &clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			contextName: {Server: server, CertificateAuthorityData: ca},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			contextName: {ClientCertificateData: user.certificate, ClientKeyData: user.key},
		},
		Contexts: map[string]*clientcmdapi.Context{
			contextName: {Cluster: contextName, AuthInfo: contextName, Namespace: "default"},
		},
		CurrentContext: contextName,
	}
}

// clientConfig returns the client configuration of the administrator's kubeconfig.
func clientConfig(config *clientcmdapi.Config) (*rest.Config, error) {
	client, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err == nil {
		_, err = rest.TLSConfigFor(client)
	}
	if err != nil {
		return nil, fmt.Errorf("check the administrator's credentials: %w", err)
	}
	client.QPS = -1 // no limit: the API server has no other users than the components
	client.UserAgent = "pinfold-local"
	return client, nil
}

// writeKubeconfig writes a kubeconfig that only its owner can read.
func writeKubeconfig(path string, config *clientcmdapi.Config) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	return writeFile(path, data)
}

// writeFile writes a file of the data directory atomically. Only its owner can read it.
func writeFile(path string, data []byte) error {
	if err := atomicfile.Write(path, data, atomicfile.Options{Perm: 0o600, Suffix: temporarySuffix}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// exported records an exported kubeconfig and the directories that were created for it. The record
// is written before they exist, so that the next start or Remove can remove what a killed
// supervisor left.
type exported struct {
	Kubeconfig string        `json:"kubeconfig"` // absolute path
	Suffix     string        `json:"suffix"`     // of the name of the temporary file, which is random
	Server     string        `json:"server"`     // URL of the API server, which identifies the cluster
	Made       madedirs.Dirs `json:"made"`
}

// exportKubeconfig writes the administrator's kubeconfig to path, outside of the data directory. It
// does not replace a kubeconfig of other clusters, such as the user's ~/.kube/config.
func (l layout) exportKubeconfig(path string, config *clientcmdapi.Config) error {
	if _, err := os.Stat(path); err == nil {
		existing, err := clientcmd.LoadFromFile(path)
		if err != nil {
			return fmt.Errorf("%s exists and is not a kubeconfig: %w", path, err)
		}
		if !isLocal(existing) {
			return fmt.Errorf("%s describes other clusters and is not overwritten; choose another file", path)
		}
	}
	e := exported{
		Kubeconfig: path,
		Suffix:     ".pinfold-" + rand.Text(), // other programs may use any fixed name in that directory
		Server:     config.Clusters[contextName].Server,
		Made:       madedirs.Missing("/", filepath.Dir(path)),
	}
	if err := e.Made.Make("/", 0o700, func() error { return l.writeJSON(exportedName, e) }); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := atomicfile.Write(path, data, atomicfile.Options{Perm: 0o600, Suffix: e.Suffix}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// withdrawKubeconfig removes the exported kubeconfig, unless another cluster has replaced it, and
// the directories that were created for it. It logs the directories that it keeps.
func (l layout) withdrawKubeconfig(logger *slog.Logger) error {
	var e exported
	err := readJSON(l.dir, exportedName, &e)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = e.remove(logger)
	}
	if err == nil {
		err = os.Remove(l.path(exportedName))
	}
	if err != nil {
		return fmt.Errorf("remove the exported kubeconfig: %w", err)
	}
	return nil
}

func (e exported) remove(logger *slog.Logger) error {
	if !strings.HasPrefix(e.Suffix, ".pinfold-") || strings.Contains(e.Suffix, "/") {
		return fmt.Errorf("%q is not the suffix of a temporary file", e.Suffix)
	}
	for dir := range e.Made {
		if !strings.HasPrefix(e.Kubeconfig, dir+"/") {
			return fmt.Errorf("%s is not a parent directory of %s", dir, e.Kubeconfig)
		}
	}
	err := os.Remove(e.Kubeconfig + e.Suffix)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	existing, loadErr := clientcmd.LoadFromFile(e.Kubeconfig)
	if loadErr == nil && isLocal(existing) && existing.Clusters[contextName].Server == e.Server {
		err = errors.Join(err, os.Remove(e.Kubeconfig))
	}
	return errors.Join(err, e.Made.Remove("/", logger))
}

func isLocal(config *clientcmdapi.Config) bool {
	return len(config.Clusters) == 1 && config.Clusters[contextName] != nil &&
		len(config.AuthInfos) == 1 && config.AuthInfos[contextName] != nil
}
