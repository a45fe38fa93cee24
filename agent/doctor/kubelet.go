package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"pinfold.dev/pinfold/kube/nodetopology"
)

// kubelet asks for the policy of its CPU manager: of the kubelet itself where that is
// possible, and else of the file in which it keeps its state.
func (x *examination) kubelet(ctx context.Context) {
	const check = "CPU manager policy"
	policy, from, err := x.policy(ctx)
	switch {
	case errors.Is(err, errBadState):
		x.add(check, Problem, err.Error(), "remove the file and restart the kubelet, which does not start with it either")
	case err != nil:
		x.add(check, Skipped, err.Error(), "run on the node as root, or with --node-name and --kubeconfig")
	case policy == "":
		x.add(check, Skipped, "the kubelet has written no state, and was not asked", "start the kubelet, or use --node-name and --kubeconfig")
	case policy == nodetopology.KubeletPolicyNone:
		x.add(check, OK, policy+" ("+from+")", "")
	default:
		x.add(check, Problem, fmt.Sprintf("%s (%s): the kubelet binds CPUs itself, so Pinfold does not", policy, from),
			"set cpuManagerPolicy: none, drain the node, remove "+path.Join(x.KubeletDir, stateFile)+" and restart the kubelet")
	}
}

// stateFile is the CPU manager's checkpoint (k8s.io/kubernetes pkg/kubelet/cm/cpumanager/state).
const stateFile = "cpu_manager_state"

var errBadState = errors.New("the CPU manager's state is damaged")

func (x *examination) policy(ctx context.Context) (policy, from string, err error) {
	if x.Cluster != nil {
		policy, err = x.Cluster.CPUManagerPolicy(ctx)
		if err == nil {
			return policy, "the kubelet's configuration", nil
		}
	}
	name := path.Join(x.KubeletDir, stateFile)
	text, found, readErr := x.read(name)
	if readErr != nil || !found {
		if err == nil {
			err = readErr
		}
		return "", "", err
	}
	var state struct {
		PolicyName string `json:"policyName"`
	}
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		return "", "", fmt.Errorf("%s: %w: %w", name, errBadState, err)
	}
	return state.PolicyName, name, nil
}
