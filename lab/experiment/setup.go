package experiment

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// in returns the services of an experiment with the settings of a condition.
func (c Condition) in(services []Service) ([]Service, error) {
	all := slices.Clone(services)
	for name, settings := range c.Services {
		i := slices.IndexFunc(all, func(s Service) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("condition %q: there is no service %q", c.Name, name)
		}
		decoder := json.NewDecoder(bytes.NewReader(settings))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&all[i]); err != nil {
			return nil, fmt.Errorf("condition %q: service %q: %w", c.Name, name, err)
		}
		if all[i].Name != name {
			return nil, fmt.Errorf("condition %q: service %q: it cannot have another name", c.Name, name)
		}
	}
	return all, nil
}

// Setup is what runs in a window: a condition under a load. All amounts are those of the machine.
type Setup struct {
	Condition string
	Services  []Service // with the settings of the condition
	Load      *Load     // nil: none
	Settle    time.Duration
}

// Setups returns the setups of a round on a machine with a number of CPUs: each condition under
// each load.
func (c Config) Setups(cpus int) (all []Setup, err error) {
	scale := Scale{CPUs: cpus, Full: c.CPUs}
	loads := make([]*Load, max(1, len(c.Loads)))
	for i, l := range c.Loads {
		l.Batch, l.Clients = l.Batch.On(scale), l.Clients.On(scale)
		loads[i] = &l
	}
	for _, condition := range c.Conditions {
		services, err := condition.in(c.Services)
		if err != nil {
			return nil, err
		}
		for i, s := range services {
			services[i] = s.on(scale)
		}
		settle := cmp.Or(condition.Settle, c.Settle).Duration
		for _, l := range loads {
			all = append(all, Setup{condition.Name, services, l, settle})
		}
	}
	return all, nil
}

// on returns a service whose amounts are those of a machine.
func (s Service) on(scale Scale) Service {
	s.Threads, s.Limit, s.CPUs = s.Threads.On(scale), s.Limit.On(scale), s.CPUs.On(scale)
	return s
}

// first returns the first service in a condition.
func (c Config) first(condition string) (Service, error) {
	i := slices.IndexFunc(c.Conditions, func(o Condition) bool { return o.Name == condition })
	if i < 0 {
		return Service{}, fmt.Errorf("there is no condition %q", condition)
	}
	services, err := c.Conditions[i].in(c.Services)
	if err != nil || len(services) == 0 {
		return Service{}, err
	}
	return services[0], nil
}

// First returns the first service as it was in a condition, with the amounts of the machine.
func (r Result) First(condition string) (Service, error) {
	s, err := r.Config.first(condition)
	return s.on(r.Scale()), err
}
