package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"pinfold.dev/pinfold/internal/atomicfile"
)

// contextName names cluster, user and context in the kubeconfigs written here.
const contextName = "pinfold-local"

// newKubeconfig returns a kubeconfig that needs no other file.
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

// writeKubeconfig writes a kubeconfig that only its owner can read.
func writeKubeconfig(path string, config *clientcmdapi.Config) error {
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	return writeFile(path, data)
}

// writeFile replaces a file of the data directory in one step: readers see the old or the
// new one, never a part, and never anybody but the owner.
func writeFile(path string, data []byte) error {
	return replaceFile(path, data, temporarySuffix)
}

// replaceFile writes a file that only its owner can read.
func replaceFile(path string, data []byte, suffix string) error {
	if err := atomicfile.Write(path, data, atomicfile.Options{Perm: 0o600, Suffix: suffix}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// exportKubeconfig writes the administrator's kubeconfig to a place outside
// the data directory. A file there that is not from a local cluster, such as
// somebody's ~/.kube/config, is left alone.
func exportKubeconfig(path string, config *clientcmdapi.Config) error {
	if _, err := os.Stat(path); err == nil {
		existing, err := clientcmd.LoadFromFile(path)
		if err != nil {
			return fmt.Errorf("%s exists and is no kubeconfig: %w", path, err)
		}
		if !isLocal(existing) {
			return fmt.Errorf("%s describes other clusters and is not overwritten; choose another file", path)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	// Beside it may be files of other people's, under any name.
	return replaceFile(path, data, "")
}

// missingParents returns the directories above a path that do not exist, the innermost first.
func missingParents(path string) (missing []string) {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			return missing
		}
		missing = append(missing, dir)
	}
}

// withdrawKubeconfig removes an exported kubeconfig, unless another cluster
// has replaced it since.
func withdrawKubeconfig(path, server string) error {
	existing, err := clientcmd.LoadFromFile(path)
	if err != nil || !isLocal(existing) || existing.Clusters[contextName].Server != server {
		return nil //nolint:nilerr // gone, or not ours any more: nothing to do
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the kubeconfig: %w", err)
	}
	return nil
}

func isLocal(config *clientcmdapi.Config) bool {
	return len(config.Clusters) == 1 && config.Clusters[contextName] != nil &&
		len(config.AuthInfos) == 1 && config.AuthInfos[contextName] != nil
}
