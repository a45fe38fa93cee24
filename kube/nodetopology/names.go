package nodetopology

import (
	"fmt"
	"strconv"
	"strings"
)

// Types of zones.
const (
	typePackage = "Package"
	typeNUMA    = "Node"
	typeLLC     = "LLC"
)

// Names of zones are one of these and the id of the part.
const (
	prefixPackage = "package-"
	prefixNUMA    = "node-"
	prefixLLC     = "llc-"
)

// Attributes of zones.
const (
	attrCPUs        = "pinfold.dev/cpus"
	attrCores       = "pinfold.dev/cores"
	attrLocalCPUs   = "pinfold.dev/local-cpus"
	attrMemoryBytes = "pinfold.dev/memory-bytes"
)

// Attributes of the object.
const (
	attrFormat        = "pinfold.dev/format"
	attrSize          = "pinfold.dev/size"
	attrDies          = "pinfold.dev/dies"
	attrKinds         = "pinfold.dev/kinds"
	attrOffline       = "pinfold.dev/offline-cpus"
	attrIsolated      = "pinfold.dev/isolated-cpus"
	attrReserved      = "pinfold.dev/reserved-cpus"
	attrKubeletPolicy = "pinfold.dev/kubelet-cpu-manager-policy"
	attrAgentHealth   = "pinfold.dev/agent-health"
	attrAgentLease    = "pinfold.dev/agent-lease"
	attrDigest        = "pinfold.dev/digest"
)

// format is the version of the form that the package comment describes.
const format = "1"

// attrPrefix is common to all attributes that this package writes.
const attrPrefix = "pinfold.dev/"

// parseID reads a decimal id the way it is written here: no sign, no leading zero.
func parseID(text string) (int, error) {
	id, err := strconv.Atoi(text)
	if err != nil || id < 0 || strconv.Itoa(id) != text {
		return 0, fmt.Errorf("%q is not an id (0 or more)", text)
	}
	return id, nil
}

// zoneID returns the id in the name of a zone.
func zoneID(name, prefix string) (int, error) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, fmt.Errorf("the name must be %q and an id", prefix)
	}
	return parseID(text)
}

func zoneName[ID ~int](prefix string, id ID) string { return prefix + strconv.Itoa(int(id)) }
