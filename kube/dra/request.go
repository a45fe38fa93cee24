package dra

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
)

// Request is what the claims of one pod ask for.
type Request struct {
	Claims []api.ClaimRef
	Parts  []Part // in the order of the claims and their results
	// Shares are the init containers that run on the CPUs of another container, by name.
	Shares map[string]string
}

// Part is a device of a claim, of which a container gets CPUs.
type Part struct {
	Claim     api.ClaimRef
	Result    resourceapi.DeviceRequestAllocationResult
	Container string
	CPUs      int
	Within    cpuset.Set // the CPUs of the device
	FullCores placement.FullCores
}

// Parameters are the opaque parameters of the driver in a claim or device class:
//
//	{"apiVersion":"cpu.pinfold.dev/v1alpha1","kind":"Parameters","fullCores":"required"}
type Parameters struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	FullCores  placement.FullCores `json:"fullCores"`
}

// The version and the kind of [Parameters].
const (
	ParametersVersion = Driver + "/v1alpha1"
	ParametersKind    = "Parameters"
)

// OneClaimPerPod is what to do about a claim that several pods use.
const OneClaimPerPod = "name a ResourceClaimTemplate in the pods (resourceClaimTemplateName), so that each gets a claim of its own"

// PodOf returns the UID of the only pod that uses the claims.
func PodOf(claims []*resourceapi.ResourceClaim) (pod types.UID, err error) {
	for _, claim := range claims {
		users := claim.Status.ReservedFor
		if len(users) == 1 && users[0].Resource == "podgroups" {
			return "", fmt.Errorf("resource claim %s: it is one of a pod group (%s), and exclusive CPUs belong to one pod: remove it from the group's resourceClaims",
				claim.Name, users[0].Name)
		}
		if len(users) != 1 || users[0].Resource != "pods" || users[0].APIGroup != "" || pod != "" && users[0].UID != pod {
			return "", fmt.Errorf("resource claim %s: %d pods or others use it, and exclusive CPUs belong to one pod: %s", claim.Name, len(users), OneClaimPerPod)
		}
		pod = users[0].UID
	}
	return pod, nil
}

// Read reads the claims of a pod that have been allocated. The errors are for the pod's author.
func Read(pod *corev1.Pod, claims []*resourceapi.ResourceClaim, node string, devices []Device) (Request, error) {
	r, users := Request{Shares: map[string]string{}}, usersOf(pod)
	for _, claim := range claims {
		if err := r.add(users[claim.Name], claim, node, devices); err != nil {
			return Request{}, fmt.Errorf("resource claim %s: %w", claim.Name, err)
		}
	}
	for _, p := range r.Parts {
		if other, shares := r.Shares[p.Container]; shares {
			return Request{}, fmt.Errorf("resource claim %s: request %s: init container %s uses it and a request of container %s: it can use one of both",
				p.Claim.Name, p.Result.Request, p.Container, other)
		}
	}
	return r, nil
}

func (r *Request) add(users []user, claim *resourceapi.ResourceClaim, node string, devices []Device) error {
	if claim.Status.Allocation == nil {
		return fmt.Errorf("it is not allocated")
	}
	ref := api.ClaimRef{Name: claim.Name, UID: claim.UID}
	r.Claims = append(r.Claims, ref)
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != Driver {
			continue
		}
		p := Part{Claim: ref, Result: result}
		err := r.findUser(&p, users)
		if err == nil {
			err = p.read(claim, node, devices)
		}
		if err != nil {
			return fmt.Errorf("request %s: %w", result.Request, err)
		}
		r.Parts = append(r.Parts, p)
	}
	return nil
}

// read sets how many CPUs of which device a container gets.
func (p *Part) read(claim *resourceapi.ResourceClaim, node string, devices []Device) error {
	result := &p.Result
	at := slices.IndexFunc(devices, func(d Device) bool { return d.Name == result.Device })
	switch {
	case result.Pool != node:
		return fmt.Errorf("it has a device of node %s, and this is node %s: delete the pod and the claim", result.Pool, node)
	case result.AdminAccess != nil && *result.AdminAccess:
		return fmt.Errorf("CPUs give no administrator's access: remove adminAccess")
	case at < 0:
		return fmt.Errorf("node %s has no device %s any more: delete the pod and its claim", node, result.Device)
	}
	amount, ok := result.ConsumedCapacity[Capacity]
	if !ok {
		amount, ok = result.ConsumedCapacity[Driver+"/"+Capacity]
	}
	cpus := amount.Value()
	switch {
	case !ok:
		return fmt.Errorf("its allocation does not say how many CPUs it has: the cluster needs the feature gate DRAConsumableCapacity")
	case amount.CmpInt64(cpus) != 0 || cpus < 1 || cpus > cpuset.MaxCPUs:
		return fmt.Errorf("it has %s CPUs: request a whole number", amount.String())
	}
	p.CPUs, p.Within = int(cpus), devices[at].CPUs
	return p.configure(claim.Status.Allocation.Devices.Config)
}

// configure reads the parameters. Those of the claim come after those of its device class.
func (p *Part) configure(configs []resourceapi.DeviceAllocationConfiguration) error {
	for _, c := range resourceclaim.ConfigForResult(configs, p.Result) {
		if c.Opaque == nil || c.Opaque.Driver != Driver {
			if c.Opaque != nil && strings.HasSuffix(c.Opaque.Driver, ".pinfold.dev") { // such as the device class for whole cores
				return fmt.Errorf("parameters for %s reach no device: write driver: %s", api.Shorten(c.Opaque.Driver, longestCause), Driver)
			}
			continue
		}
		parameters, err := decode(c.Opaque.Parameters.Raw)
		if err != nil {
			return fmt.Errorf("parameters for %s: %s", Driver, api.Shorten(err.Error(), longestCause))
		}
		p.FullCores = cmp.Or(parameters.FullCores, p.FullCores)
	}
	return nil
}

// longestCause bounds what an event quotes of parameters, in bytes.
const longestCause = 300

func decode(text []byte) (p Parameters, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&p); err != nil {
		return p, err
	}
	switch {
	case p.APIVersion != ParametersVersion || p.Kind != ParametersKind:
		return p, fmt.Errorf("kind %q of %q: this driver reads kind %s of %s", p.Kind, p.APIVersion, ParametersKind, ParametersVersion)
	case p.FullCores != "" && p.FullCores != placement.FullCoresPreferred && p.FullCores != placement.FullCoresRequired:
		return p, fmt.Errorf("fullCores is %q: it must be %q or %q", p.FullCores, placement.FullCoresPreferred, placement.FullCoresRequired)
	}
	return p, nil
}

// findUser finds the container that gets the CPUs of a part. Ordinary init containers that use it, too,
// run on CPUs of that container.
func (r *Request) findUser(p *Part, users []user) error {
	request := resourceclaim.BaseRequestRef(p.Result.Request)
	var inits, others []user
	for _, u := range users {
		to := &others
		if u.role == ledger.RoleInit {
			to = &inits
		}
		again := len(*to) > 0 && (*to)[len(*to)-1].container == u.container
		if !again && (u.request == "" || u.request == request) {
			*to = append(*to, u)
		}
	}
	switch {
	case len(others) > 1:
		return fmt.Errorf("containers %s and %s both use it, and exclusive CPUs belong to one container: add a request for each",
			others[0].container, others[1].container)
	case len(others) == 1 && len(inits) > 0 && others[0].role == ledger.RoleSidecar:
		return fmt.Errorf("init container %s and sidecar %s both use it, and run at the same time: add a request for each",
			inits[0].container, others[0].container)
	case len(others) == 0 && len(inits) == 0:
		return errors.New("no container uses it: name it in resources.claims of a container")
	case len(others) == 0:
		p.Container, inits = inits[0].container, inits[1:]
	default:
		p.Container = others[0].container
	}
	for _, u := range inits {
		if other, ok := r.Shares[u.container]; ok && other != p.Container {
			return fmt.Errorf("init container %s uses requests of containers %s and %s: it can share those of one", u.container, other, p.Container)
		}
		r.Shares[u.container] = p.Container
	}
	return nil
}

// user is a container that uses a request of a claim, or all of them ("").
type user struct {
	container string
	role      ledger.Role
	request   string
}

// usersOf returns the containers that use each claim, by name or because the scheduler made the claim
// for an extended resource that they request, in the order of the pod.
func usersOf(pod *corev1.Pod) map[string][]user {
	users, names, extended := map[string][]user{}, namesOf(pod), map[string][]string{}
	special := pod.Status.ExtendedResourceClaimStatus
	if special != nil {
		for _, m := range special.RequestMappings {
			extended[m.ContainerName] = append(extended[m.ContainerName], m.RequestName)
		}
	}
	visit := func(c *corev1.Container, role ledger.Role) {
		for _, used := range c.Resources.Claims {
			if claim, ok := names[used.Name]; ok {
				users[claim] = append(users[claim], user{c.Name, role, used.Request})
			}
		}
		for _, request := range extended[c.Name] {
			users[special.ResourceClaimName] = append(users[special.ResourceClaimName], user{c.Name, role, request})
		}
	}
	for i := range pod.Spec.InitContainers {
		visit(&pod.Spec.InitContainers[i], api.InitRole(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		visit(&pod.Spec.Containers[i], ledger.RoleMain)
	}
	return users
}

// namesOf returns the names of a pod's claims, as far as they exist, by those in the pod. A pod may have
// thousands, and [resourceclaim.Name] would look through them for each.
func namesOf(pod *corev1.Pod) map[string]string {
	made, names := map[string]*string{}, map[string]string{}
	for _, s := range pod.Status.ResourceClaimStatuses {
		made[s.Name] = s.ResourceClaimName
	}
	for _, c := range pod.Spec.ResourceClaims {
		if name := cmp.Or(c.ResourceClaimName, made[c.Name]); name != nil {
			names[c.Name] = *name
		}
	}
	return names
}

// ClaimNames returns the names of a pod's claims, as far as they exist.
func ClaimNames(pod *corev1.Pod) []string {
	names := slices.Sorted(maps.Values(namesOf(pod)))
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}

// CPUs returns how many CPUs each container gets, and all together.
func (r *Request) CPUs() (of map[string]int, all int) {
	of = map[string]int{}
	for i := range r.Parts {
		of[r.Parts[i].Container] += r.Parts[i].CPUs
		all += r.Parts[i].CPUs
	}
	return of, all
}

// Divide returns the CPUs of each part, of those that were allocated to its container.
func (r *Request) Divide(a api.Allocation) []cpuset.Set {
	free := map[string]cpuset.Set{}
	for _, c := range a.Containers {
		free[c.Name] = c.CPUs
	}
	parts := make([]cpuset.Set, len(r.Parts))
	for i, p := range r.Parts {
		for cpu := range free[p.Container].Intersection(p.Within).All() {
			if parts[i].Len() < p.CPUs {
				parts[i].Add(cpu)
			}
		}
		free[p.Container] = free[p.Container].Difference(parts[i])
	}
	return parts
}
