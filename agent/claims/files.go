package claims

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
)

const (
	// Variable is the environment variable of a container with its CPUs, as they were when it was
	// created.
	Variable = "PINFOLD_CPUS"
	// assigned is the name of a file with the CPUs of a container, as a list (KEP-6369).
	assigned = "assigned.cpuset"
	// containerFile is where the container finds that file.
	containerFile = "/var/run/pinfold/" + assigned

	// Annotations of the files for the runtime have their pods.
	podAnnotation = "pinfold.dev/pod"
	// allocationAnnotation has what was allocated to the pod.
	allocationAnnotation = "pinfold.dev/cpu-allocation"

	kind       = dra.Driver + "/claim"
	filePrefix = dra.Driver + "-claim-"
	fileSuffix = ".json"
)

// deviceID returns the id of the CDI device for a request of a claim.
func deviceID(p *dra.Part) string { return kind + "=" + deviceName(p) }

func deviceName(p *dra.Part) string {
	return string(p.Claim.UID) + "-" + resourceclaim.BaseRequestRef(p.Result.Request)
}

// specFile returns the file that describes the CDI devices of a claim.
func (d *Driver) specFile(claim types.UID) string {
	return filepath.Join(d.CDIDir, filePrefix+string(claim)+fileSuffix)
}

// writeFiles writes what the containers of a pod are to see of their CPUs.
func (d *Driver) writeFiles(pod types.UID, request *dra.Request, allocation api.Allocation) error {
	cpus := map[string]cpuset.Set{}
	for _, c := range allocation.Containers {
		cpus[c.Name] = c.CPUs
	}
	specs := map[types.UID]*cdi.Spec{}
	done := map[string]bool{}
	for i := range request.Parts {
		p := &request.Parts[i]
		uid := p.Claim.UID
		if specs[uid] == nil {
			specs[uid] = &cdi.Spec{Version: "0.6.0", Kind: kind, Annotations: map[string]string{
				podAnnotation: string(pod), allocationAnnotation: allocation.Encode()}}
		}
		if done[deviceName(p)] {
			continue
		}
		done[deviceName(p)] = true
		name := filepath.Join(string(uid), p.Container, assigned)
		if err := write(filepath.Join(d.Files, name), []byte(cpus[p.Container].String()+"\n")); err != nil {
			return err
		}
		specs[uid].Devices = append(specs[uid].Devices, cdi.Device{Name: deviceName(p), ContainerEdits: cdi.ContainerEdits{
			Env:    []string{Variable + "=" + cpus[p.Container].String()},
			Mounts: []*cdi.Mount{{HostPath: filepath.Join(d.HostFiles, name), ContainerPath: containerFile, Options: []string{"bind", "ro", "nosuid", "nodev"}}},
		}})
	}
	for uid, spec := range specs {
		text, err := json.MarshalIndent(spec, "", "  ")
		if err == nil {
			err = write(d.specFile(uid), append(text, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write replaces a file, and makes its directory.
func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, text, atomicfile.Options{Perm: 0o644, Suffix: ".new"})
}

// removeFiles removes the files of a claim.
func (d *Driver) removeFiles(claim types.UID) error {
	if err := os.Remove(d.specFile(claim)); !errors.Is(err, fs.ErrNotExist) && err != nil {
		return fmt.Errorf("remove what the container runtime was told: %w", err)
	}
	return os.RemoveAll(filepath.Join(d.Files, string(claim)))
}

// tidy removes the files of claims that have no CPUs any more, such as those whose pods ended while
// no agent ran.
func (d *Driver) tidy() error {
	files, err := specFiles(d.CDIDir)
	if err != nil || len(files) == 0 {
		return err
	}
	kept := d.Kept()
	for _, file := range files {
		uid := types.UID(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), filePrefix), fileSuffix))
		if !kept[uid] {
			err = errors.Join(err, d.removeFiles(uid))
		}
	}
	return err
}

// specFiles returns the files about claims in a CDI directory, which need not exist.
func specFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filePrefix) && strings.HasSuffix(e.Name(), fileSuffix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return files, err
}

// Saved returns what the files in a CDI directory say that was allocated to pods for claims, by the UID of
// the pod, for an agent that has lost what it has saved itself. Only root writes there.
func Saved(dir string) (map[types.UID]api.Allocation, error) {
	given := map[types.UID]api.Allocation{}
	files, err := specFiles(dir)
	for _, file := range files {
		var spec cdi.Spec
		text, errFile := os.ReadFile(file)
		if errFile == nil {
			errFile = json.Unmarshal(text, &spec)
		}
		allocation, errText := api.DecodeAllocation(spec.Annotations[allocationAnnotation])
		if errFile = cmp.Or(errFile, errText); errFile != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", file, errFile))
			continue
		}
		given[types.UID(spec.Annotations[podAnnotation])] = allocation
	}
	return given, err
}
