package place

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/placement"
)

// request is one line of a batch.
type request struct {
	Machine     json.RawMessage // nil if absent
	MachineFile string
	Free        *string // nil: all online CPUs are free
	CPUs        int
	Policy      placement.Policy
	FullCores   placement.FullCores
}

// decodeRequest parses one JSON object strictly: an unknown or repeated field, or one of the wrong
// type, is an error, since ignoring it would change the meaning of the request. null counts as
// absent.
func decodeRequest(line []byte) (request, error) {
	var r request
	fields := map[string]any{
		"machine": &r.Machine, "machineFile": &r.MachineFile, "free": &r.Free,
		"cpus": &r.CPUs, "policy": &r.Policy, "fullCores": &r.FullCores,
	}
	known := slices.Sorted(maps.Keys(fields))
	decoder := json.NewDecoder(bytes.NewReader(line))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return r, notAnObject(err)
	}
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return r, notAnObject(err)
		}
		name := token.(string) // the decoder accepts nothing else as a key
		into, ok := fields[name]
		if !ok {
			return r, fmt.Errorf("unknown field %q, want %s", name, strings.Join(known, ", "))
		}
		if seen[name] {
			return r, fmt.Errorf("field %q is given twice", name)
		}
		seen[name] = true
		if err := decoder.Decode(into); err != nil {
			return r, fieldError(name, err)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return r, notAnObject(err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return r, errors.New("more follows after the request's closing brace")
	}
	if string(r.Machine) == "null" {
		r.Machine = nil
	}
	return r, r.check()
}

// check rejects what is wrong on every machine.
func (r request) check() error {
	switch {
	case r.Machine == nil && r.MachineFile == "":
		return errors.New(`no machine given: use "machine" or "machineFile"`)
	case r.Machine != nil && r.MachineFile != "":
		return errors.New(`both "machine" and "machineFile" are given, want one`)
	case r.CPUs < 1:
		return fmt.Errorf(`"cpus" is %d or missing, want 1 or more`, r.CPUs)
	case r.FullCores != "" && r.FullCores != placement.FullCoresPreferred && r.FullCores != placement.FullCoresRequired:
		return fmt.Errorf(`"fullCores" is %q, want %q or %q`, r.FullCores, placement.FullCoresPreferred, placement.FullCoresRequired)
	case r.Policy != "" && r.Policy != placement.Static && r.Policy != placement.StaticBurst:
		return fmt.Errorf(`"policy" is %q, want %q or %q`, r.Policy, placement.Static, placement.StaticBurst)
	}
	return nil
}

func notAnObject(err error) error {
	if err == nil {
		return errors.New("not a JSON object")
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("not a JSON object: %w", err)
}

func fieldError(name string, err error) error {
	var wrongType *json.UnmarshalTypeError
	if !errors.As(err, &wrongType) {
		return fmt.Errorf("field %q: %w", name, notAnObject(err))
	}
	want := "a string"
	if name == "cpus" {
		want = "a whole number"
	}
	return fmt.Errorf("field %q: want %s, got %s", name, want, wrongType.Value)
}
