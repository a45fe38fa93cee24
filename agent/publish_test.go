package agent

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/wait"
)

// TestOldDefinition checks that the agent tells when the API server drops what it publishes, as one
// does whose definition of the kind is older.
func TestOldDefinition(t *testing.T) {
	w := newWorld(t)
	w.root = newTree(t).root
	w.topologies.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		write, ok := action.(clienttesting.CreateAction)
		if !ok {
			return false, nil, nil
		}
		kept := write.GetObject().(*nodetopology.NodeTopology).DeepCopy()
		kept.Status.KubeletPolicy = ""
		return true, kept, nil
	})
	w.start()
	wait.Until(t, "the log names the definition", func() error { return w.log.Says(nodetopology.ErrOldDefinition.Error()) })
}
