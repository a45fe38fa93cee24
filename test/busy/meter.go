package busy

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// A Meter measures how much the machine's other work and its host disturb a test.
type Meter struct {
	begun    time.Time
	stolen   float64 // seconds of all CPUs
	elapsed  float64 // seconds of all CPUs, of any kind
	pressure uint64  // microseconds in which some thread waited for a CPU
}

// Start returns a meter that begins now. What the kernel does not report counts as zero.
func Start() Meter {
	m := Meter{begun: time.Now()}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if stat, err := proc.Stat(); err == nil {
		c := stat.CPUTotal // the time of guests is part of User and Nice
		m.stolen = c.Steal
		m.elapsed = c.User + c.Nice + c.System + c.Idle + c.Iowait + c.IRQ + c.SoftIRQ + c.Steal
	}
	if psi, err := proc.PSIStatsForResource("cpu"); err == nil && psi.Some != nil {
		m.pressure = psi.Some.Total
	}
	return m
}

// Disturbance is what happened on the machine since a [Meter] began, as shares from 0 to 1.
type Disturbance struct {
	Took     time.Duration // by the clock
	Stolen   float64       // of the CPUs' time, by the machine's host: steal in /proc/stat
	Pressure float64       // of the clock's time, in which some thread waited for a CPU: /proc/pressure/cpu
}

// Read returns the disturbance since the meter began.
func (m Meter) Read() Disturbance {
	now := Start()
	d := Disturbance{Took: now.begun.Sub(m.begun)}
	if elapsed := now.elapsed - m.elapsed; elapsed > 0 {
		d.Stolen = max(0, now.stolen-m.stolen) / elapsed
	}
	if d.Took > 0 && now.pressure >= m.pressure {
		d.Pressure = float64(now.pressure-m.pressure) / float64(d.Took.Microseconds())
	}
	return d
}

func (d Disturbance) String() string {
	return fmt.Sprintf("%v by the clock, %.0f%% of the CPUs stolen, CPU pressure %.0f%%", d.Took.Round(time.Second/10), 100*d.Stolen, 100*d.Pressure)
}
