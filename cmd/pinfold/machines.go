package main

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// maxMachines bounds how many machines a batch keeps. Clusters have few shapes of
// machine; a batch with more of them is still answered, only more slowly.
const maxMachines = 64

// machines keeps the machines that a batch has used lately, ready for placement:
// files by their path, inline machines by their text. A file is read when it is
// first used; later changes to it are not seen while it is kept.
type machines struct {
	dir    string                   // machine files are relative to it
	byKey  map[string]*list.Element // of *indexed
	recent *list.List               // last used first
}

type indexed struct {
	key   string
	index *placement.Index
}

func newMachines(dir string) *machines {
	return &machines{dir: dir, byKey: map[string]*list.Element{}, recent: list.New()}
}

// get returns the machine of a request. A machine that cannot be read is not kept.
func (ms *machines) get(r request) (*placement.Index, error) {
	key, read := ms.source(r)
	if e, ok := ms.byKey[key]; ok {
		ms.recent.MoveToFront(e)
		return e.Value.(*indexed).index, nil
	}
	m, err := read()
	if err != nil {
		return nil, err
	}
	index := placement.NewIndex(m)
	ms.byKey[key] = ms.recent.PushFront(&indexed{key, index})
	if ms.recent.Len() > maxMachines {
		oldest := ms.recent.Remove(ms.recent.Back()).(*indexed)
		delete(ms.byKey, oldest.key)
	}
	return index, nil
}

// source returns under which key a request's machine is kept, and how to read it.
func (ms *machines) source(r request) (key string, read func() (*topology.Machine, error)) {
	if r.Machine != nil {
		sum := sha256.Sum256(r.Machine)
		return "text " + string(sum[:]), func() (*topology.Machine, error) {
			m, err := topology.Decode(bytes.NewReader(r.Machine))
			if err != nil {
				return nil, fmt.Errorf("field \"machine\": %w", err)
			}
			return m, nil
		}
	}
	path := r.MachineFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(ms.dir, path)
	}
	return "file " + path, func() (*topology.Machine, error) { return readMachineFile(path) }
}
