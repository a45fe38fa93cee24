package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/sysfs"
)

// topology reads the machine as the agent does, which publishes what is damaged.
func (x *examination) topology() (*topology.Machine, error) {
	var running cpuset.Set
	if x.groups != nil {
		running, _ = x.groups.Effective("/") // else only /sys counts
	}
	m, _, err := sysfs.Examine(os.DirFS(x.path("sys")), running)
	return m, err
}

// machine checks the CPU topology that the agent will publish.
func (x *examination) machine(context.Context) {
	m, err := x.topology()
	if err != nil {
		x.add("topology", Problem, err.Error(), "mount the host's /sys; if it is mounted, report this with the output of 'pinfold topology capture'")
		return
	}
	x.add("topology", OK, fmt.Sprintf("%s, %s, %s, %s, %s", quantity.Count(len(m.Packages()), "package"), quantity.Count(len(m.NUMANodes), "NUMA node"),
		quantity.Count(len(m.LLCs()), "LLC"), quantity.Count(len(m.Cores()), "core"), quantity.Count(len(m.CPUs), "CPU")), "")
}

// kubelet checks the policy of the kubelet's CPU manager.
func (x *examination) kubelet(context.Context) {
	const check = "CPU manager policy"
	policy, source, err := x.policy()
	switch {
	case errors.Is(err, errBadState):
		x.add(check, Problem, err.Error(), "remove the file and restart the kubelet, which does not start with it either")
	case err != nil:
		x.add(check, Skipped, err.Error(), "run on the node as root, or with --node-name and --kubeconfig")
	case policy == "":
		x.add(check, Skipped, "the kubelet has written no state and was not asked", "start the kubelet, give its --root-dir as --kubelet-dir, or use --node-name and --kubeconfig")
	case policy == nodetopology.KubeletPolicyNone:
		x.add(check, OK, policy+" ("+source+")", "")
	default:
		x.add(check, Problem, fmt.Sprintf("%s (%s): the kubelet binds CPUs itself, so Pinfold does not", policy, source),
			"drain the node, stop the kubelet, set cpuManagerPolicy: none, remove "+path.Join(x.KubeletDir, stateFile)+", and start the kubelet")
	}
}

// stateFile is the CPU manager's checkpoint (k8s.io/kubernetes pkg/kubelet/cm/cpumanager/state).
const stateFile = "cpu_manager_state"

var errBadState = errors.New("the CPU manager's state is damaged")

// policy returns the policy from the kubelet or, if it cannot be asked, from the CPU manager's
// checkpoint.
func (x *examination) policy() (policy, source string, err error) {
	if err = x.errKubelet; x.Cluster != nil && err == nil {
		return x.manager, "the kubelet's configuration", nil
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
		return "", "", fmt.Errorf("%s: %w: it is not JSON", name, errBadState)
	}
	return state.PolicyName, name, nil
}
