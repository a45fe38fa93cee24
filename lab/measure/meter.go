package measure

import (
	"context"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
)

// meter measures what services and others use in a window.
type meter struct {
	*lab
	running  *services
	recorder *recorder
	before   usage
}

// begin begins a measurement.
func begin(ctx context.Context, l *lab, running *services) (m *meter, err error) {
	for _, s := range running.all {
		for _, p := range s.replicas {
			p.Take()
		}
	}
	m = &meter{lab: l, running: running}
	if m.recorder, err = l.machine.record(ctx, running.all); err != nil {
		return nil, err
	}
	if m.before, err = l.machine.usage(running.all); err != nil {
		m.recorder.cancel()
		return nil, err
	}
	return m, nil
}

// end adds the usage since the beginning to a window. client is the CPU time of a load generator
// that is another program.
func (m *meter) end(w *measured, client time.Duration) error {
	after, err := m.machine.usage(m.running.all)
	if err != nil {
		return err
	}
	if w.usage, err = m.recorder.end(); err != nil {
		return err
	}
	began := m.before.at.Sub(m.environment.Started)
	w.From, w.To = began, after.at.Sub(m.environment.Started)
	m.account(w.Figures, after, client)
	for figure, length := range map[experiment.Figure]time.Duration{experiment.Peak: 100 * time.Millisecond, experiment.PeakSlow: time.Second} {
		for _, scale := range trace.TimescalesAt(&w.usage[0], recordEvery, []time.Duration{length}) {
			w.Figures[figure] = scale.Max
		}
	}
	w.Figures[experiment.Full] = full(w.usage, m.cpus.Len())
	if w.Disturbed == "" {
		w.Disturbed = m.config.Disturbed(w.Window, w.Figures[experiment.Generator]*float64(m.cpus.Len())/float64(m.running.shared.Len()))
	}
	for i := range w.usage {
		w.usage[i].Group = w.Group(m.running.all[i].Name)
		for j := range w.usage[i].Samples {
			w.usage[i].Samples[j].At += began
		}
	}
	return nil
}

// account adds the figures of usage.
func (m *meter) account(figures map[experiment.Figure]float64, after usage, client time.Duration) {
	before, wall := m.before, after.at.Sub(m.before.at)
	cpus := func(d time.Duration) float64 { return float64(d) / float64(wall) }
	share := func(d time.Duration) float64 { return cpus(d) / float64(m.cpus.Len()) }
	first, total := before.services[0], time.Duration(0)
	for i := range m.running.all {
		total += after.services[i].Usage - before.services[i].Usage
	}
	own := after.services[0].Usage - first.Usage
	figures[experiment.Used], figures[experiment.Others] = cpus(own), cpus(total-own)
	figures[experiment.Throttled] = 0
	if periods := after.services[0].Periods - first.Periods; periods > 0 {
		figures[experiment.Throttled] = float64(after.services[0].Throttled-first.Throttled) / float64(periods)
	}
	if m.running.all[0].Program != experiment.Pi { // its threads have ended
		figures[experiment.Waited] = 1000 * cpus(after.waited-before.waited)
	}
	generator := after.generator - before.generator + client
	foreign := max(0, after.all-before.all-total-generator)
	figures[experiment.Generator], figures[experiment.Foreign] = share(generator), share(foreign)
	figures[experiment.Stolen] = share(after.stolen - before.stolen)
	figures[experiment.Machine] = share(after.all - before.all - generator)
	if calls := figures[experiment.Calls] * wall.Seconds(); calls > 0 {
		figures[experiment.Cost] = float64(generator) / float64(time.Microsecond) / calls
	}
}

// full returns the share of periods of 100 ms in which services together used all CPUs.
func full(services []trace.Series, cpus int) (share float64) {
	var sums []float64
	for i := range services {
		periods := services[i].PerPeriod(recordEvery, trace.DefaultPeriod)
		sums = append(sums, make([]float64, max(0, len(periods)-len(sums)))...)
		for period, used := range periods {
			sums[period] += used
		}
	}
	for _, used := range sums {
		if used >= experiment.AllUsed*float64(cpus) {
			share += 1 / float64(len(sums))
		}
	}
	return share
}
