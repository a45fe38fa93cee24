package localcluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"pinfold.dev/pinfold/internal/atomicfile"
)

// contextName is the name of cluster, user and context in the kubeconfigs of local clusters.
const contextName = "pinfold-local"

// writeKubeconfig writes a kubeconfig that refers to no other file, and that only its owner can read.
func writeKubeconfig(path, server string, ca []byte, user keyPair) error {
	data, err := clientcmd.Write(clientcmdapi.Config{
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
	})
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	return writeFile(path, data)
}

// clientConfig returns the client configuration of the administrator's kubeconfig.
func clientConfig(path string) (*rest.Config, error) {
	client, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's credentials: %w", err)
	}
	client.QPS = -1 // no limit: the API server has no other users than the components
	client.UserAgent = "pinfold-local"
	return client, nil
}

// writeFile writes a file of the data directory atomically. Only its owner can read it.
func writeFile(path string, data []byte) error {
	if err := atomicfile.Write(path, data, atomicfile.Options{Perm: 0o600, Suffix: temporarySuffix}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
