package topology_test

import (
	"reflect"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// TestSameCPUs changes every field of a machine, by reflection, so that new fields are tested, too.
func TestSameCPUs(t *testing.T) {
	build := topology.AMD256().MustBuild
	if !build().SameCPUs(build()) {
		t.Error("a machine is not the same as its copy")
	}
	for _, part := range []struct {
		name string
		of   func(*topology.Machine) any
	}{
		{"Machine", func(m *topology.Machine) any { return m }},
		{"CPU", func(m *topology.Machine) any { return &m.CPUs[7] }},
		{"NUMANode", func(m *topology.Machine) any { return &m.NUMANodes[3] }},
	} {
		for i := range reflect.TypeOf(part.of(build())).Elem().NumField() {
			changed := build()
			value := reflect.ValueOf(part.of(changed)).Elem()
			field := value.Type().Field(i)
			t.Run(part.name+"."+field.Name, func(t *testing.T) {
				change(t, value.Field(i))
				want := field.Name == "MemoryBytes" || field.Name == "LLCBytes" || field.Name == "NoHZFull"
				if got := build().SameCPUs(changed); got != want {
					t.Errorf("the same with another %s: %v, want %v", field.Name, got, want)
				}
			})
		}
	}
}

// change changes the value of a field.
func change(t *testing.T, field reflect.Value) {
	if set, ok := field.Addr().Interface().(*cpuset.Set); ok {
		*set = cpuset.Of(1000)
		return
	}
	switch field.Kind() {
	case reflect.Slice:
		field.Set(reflect.Append(field, reflect.Zero(field.Type().Elem())))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.Zero(field.Type().Key()), reflect.ValueOf(uint64(1)))
	case reflect.String:
		field.SetString("another")
	case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
		field.SetInt(field.Int() + 1)
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		field.SetUint(field.Uint() + 1)
	default:
		t.Fatalf("the test cannot change a %s: teach it", field.Type())
	}
}
