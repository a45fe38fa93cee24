//go:build never

package versions

// k8s.io/kubernetes requires these modules at v0.0.0, which exists only inside its repository. For
// lack of it "go list -m all" fails, unless go.mod requires real versions. Without an import "go mod
// tidy" drops the requirements. A replace would work too, but "go install PACKAGE@VERSION" refuses it.
import (
	_ "k8s.io/code-generator/third_party/forked/golang/reflect"
	_ "k8s.io/sample-apiserver/pkg/apis/wardle"
)
