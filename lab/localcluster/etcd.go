package localcluster

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

const etcdConfigName = "etcd.yaml"

// The URLs of etcd are relative: every component runs in the data directory,
// and the whole path of a Unix socket is limited to 107 bytes (unix(7)).
const (
	etcdURL     = "unix://" + socketName
	etcdPeerURL = "unix://" + peerSocketName
)

// etcdQuotaBytes is above the default of 2 GiB, which the revisions of 1,000
// nodes and many thousand pods pass in a long benchmark.
const etcdQuotaBytes = 8 << 30

// etcdConfig is the configuration of the only member.
func etcdConfig(l layout) ([]byte, error) {
	const name = "local"
	data, err := yaml.Marshal(map[string]any{
		"name":                        name,
		"data-dir":                    l.path("etcd"),
		"listen-client-urls":          etcdURL,
		"advertise-client-urls":       etcdURL,
		"listen-peer-urls":            etcdPeerURL,
		"initial-advertise-peer-urls": etcdPeerURL,
		"initial-cluster":             name + "=" + etcdPeerURL,
		"initial-cluster-state":       "new",
		"unsafe-no-fsync":             true,
		"quota-backend-bytes":         etcdQuotaBytes,
		"log-level":                   "warn",
	})
	if err != nil {
		return nil, fmt.Errorf("encode etcd's configuration: %w", err)
	}
	return data, nil
}
