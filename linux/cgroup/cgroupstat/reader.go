package cgroupstat

import (
	"errors"
	"maps"
	"math"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
	"pinfold.dev/pinfold/linux/cputime"
	"pinfold.dev/pinfold/linux/sysfs"
)

// Reader reads the statistics and limits of one group repeatedly without allocating. Its files stay
// open: two on version 1 or one on version 2 for the statistics, and three or two for the limits.
//
// Once the group is removed, all methods return [cgroup.ErrGone], as those of a [cgroup.HeldFile].
//
// A Reader must not be used by several goroutines at the same time.
type Reader struct {
	fs    *cgroup.FS
	group string
	stat  *cgroup.HeldFile // nil on version 1 if the kernel has no limits
	usage *cgroup.HeldFile // version 1
	waits *cgroup.HeldFile // nil unless waits are read
	// buffer is larger than the longest file so far.
	buffer []byte
	// waited is what waits had at the last read, untilWaits how many reads from now it is read again.
	waited                 time.Duration
	waitsEvery, untilWaits int
	delays                 *delayReader // where the kernel has no pressure of groups
	// limits are opened by the first call of Limits, because not all callers need them.
	limits       []*cgroup.HeldFile
	limitsOpened bool
}

// statSize is larger than cpu.stat of Linux 6.18, which has 300 bytes. Vendors' kernels have more.
const statSize = 640

// Open opens the statistics of a group. The error is ErrGone if the group does not exist. A group
// without a cpu controller has only usage, as [Read] describes.
func Open(fs *cgroup.FS, group string) (*Reader, error) {
	stat, err := fs.Hold(group, cgroup.CPUStat)
	if err != nil && (fs.Layout().CPU == cgroup.V2 || !errors.Is(err, errors.ErrUnsupported)) {
		return nil, err
	}
	r := &Reader{fs: fs, group: group, stat: stat, buffer: make([]byte, statSize)}
	if fs.Layout().CPU == cgroup.V1 {
		if r.usage, err = fs.Hold(group, cgroup.CPUAcctUsage); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

// Close closes the files. Later reads fail.
func (r *Reader) Close() {
	for _, h := range append(r.limits, r.stat, r.usage, r.waits) {
		if h != nil {
			h.Close()
		}
	}
}

// WaitsEvery is the least time between reads of cpu.pressure. A read takes what the CPUs have
// counted since the last one, weighted by whole jiffies of non-idle time, so frequent ones lose
// waits for all readers (collect_percpu_times in kernel/sched/psi.c of Linux 7.2).
const WaitsEvery = 100 * time.Millisecond

// ReadWaits makes each nth Read read cpu.pressure, too; see [WaitsEvery]. Without it, Read estimates
// waits from run delays of threads, in the long run as seldom as it takes to use a share of a CPU for that.
func (r *Reader) ReadWaits(n int, share float64) {
	r.waitsEvery, r.untilWaits = n, 1
	if _, err := ReadPressure(r.fs, r.group); err == nil {
		r.waits, _ = r.fs.Hold(r.group, cgroup.CPUPressure) // without it, waits stay unknown
	} else {
		r.delays = &delayReader{share: share}
	}
}

// HasWaits reports whether Read reads waits: after ReadWaits, if the kernel counts them.
func (r *Reader) HasWaits() bool { return r.waits != nil || r.delays != nil }

// maxThreads bounds the time that a reading of run delays takes, to some 1 ms.
const maxThreads = 200

// secondDelay is when run delays are read for the second time at the latest, so that a recording of one
// second has waits, also of many groups.
const secondDelay = 800 * time.Millisecond

// delayReader reads run delays repeatedly.
type delayReader struct {
	share float64 // of a CPU, which it may use from the second reading on
	next  time.Time
	delays
}

// delays are a reading.
type delays struct {
	at      time.Time
	threads map[int]time.Duration
	group   Stat
	machine map[cpuset.CPU]cputime.Times // of the CPUs that the threads may use
}

// read returns for how long threads waited or were throttled since the last reading, 0 before the
// next one is due.
func (d *delayReader) read(fs *cgroup.FS, group string) (time.Duration, error) {
	last, now := d.delays, delays{at: time.Now()}
	if now.at.Before(d.next) {
		return 0, nil
	}
	var errs [3]error
	now.threads, errs[0] = RunDelays(fs, group, maxThreads)
	now.machine, errs[1] = cputime.Read(fs.Root())
	now.group, errs[2] = Read(fs, group)
	if err := errors.Join(errs[:]...); err != nil {
		return 0, err
	}
	for id := range now.threads {
		if allowed, err := sysfs.AffinityOf(id); err == nil { // otherwise it has ended
			maps.DeleteFunc(now.machine, func(cpu cpuset.CPU, _ cputime.Times) bool { return !allowed.Contains(cpu) })
		}
		break // threads of one group have the same, nearly always
	}
	pause := time.Duration(float64(time.Since(now.at)) / d.share)
	if last.threads == nil {
		pause = min(pause, secondDelay)
	}
	if d.delays, d.next = now, now.at.Add(pause); last.threads == nil {
		return 0, nil
	}
	return now.since(&last), nil
}

// since returns the sum of the run delays of threads since the last reading. These go on while
// threads are throttled, or wait for each other. They wait for others no longer than these use CPUs,
// with what their host takes. Where throttled time hides for whom threads waited, only the time of
// others counts in which the rest of the CPUs were busy, too: about the product of the shares.
func (d *delays) since(last *delays) time.Duration {
	apart := d.at.Sub(last.at)
	var all cputime.Times
	for cpu, t := range d.machine {
		passed, _ := t.Since(last.machine, cpu)
		all.Busy += passed.Busy
		all.Total += passed.Total
	}
	others := min(apart, max(0, time.Duration(all.Busy)*cputime.Tick-(d.group.Usage-last.group.Usage)))
	if d.group.ThrottledTime > 0 {
		busy := float64(all.Busy) / float64(max(1, all.Total))
		others = time.Duration(float64(others) * math.Pow(busy, float64(len(d.machine)-1)))
	}
	throttled := max(0, d.group.ThrottledTime-last.group.ThrottledTime)
	return min(sumOfDelays(last.threads, d.threads, apart), throttled+others)
}

// readWaits reads cpu.pressure or run delays if it is time. A group's pressure may be switched off
// meanwhile (cgroup.pressure): it then has no more waits.
func (r *Reader) readWaits() time.Duration {
	if r.untilWaits--; !r.HasWaits() || r.untilWaits > 0 {
		return r.waited
	}
	r.untilWaits = r.waitsEvery
	if r.delays != nil {
		waited, err := r.delays.read(r.fs, r.group)
		if err != nil {
			r.delays = nil
		}
		r.waited += waited
		return r.waited
	}
	text, err := r.waits.Read(&r.buffer)
	if err == nil {
		var waited time.Duration
		if waited, err = parseWaited(text); err == nil {
			r.waited = waited
		}
	}
	if err != nil {
		r.waits.Close()
		r.waits = nil
	}
	return r.waited
}

// Read reads the statistics, with usage last. The error is ErrGone if the group no longer exists.
func (r *Reader) Read(s *Stat) error {
	*s = Stat{}
	if r.stat != nil {
		text, err := r.stat.Read(&r.buffer)
		if err != nil {
			return err
		}
		if err := s.parse(r.fs.Layout().CPU, text); err != nil {
			return r.stat.Invalid(err)
		}
	}
	s.Waited = r.readWaits()
	if r.usage == nil {
		return nil
	}
	text, err := r.usage.Read(&r.buffer)
	if err != nil {
		return err
	}
	if s.Usage, err = kernfile.Time(text, time.Nanosecond); err != nil {
		return r.usage.Invalid(err)
	}
	return nil
}

// Limits reads quota, period and burst. A group that cannot have a quota is unlimited: the root, or
// a group without the cpu controller. Burst is 0 if the kernel does not have it.
func (r *Reader) Limits() (bandwidth.Limits, error) {
	if !r.limitsOpened {
		if err := r.openLimits(); err != nil {
			return bandwidth.Limits{}, err
		}
	}
	// The kernel's default period; default_cfs_period of kernel/sched/fair.c.
	l := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}
	for _, h := range r.limits {
		text, err := h.Read(&r.buffer)
		if err != nil {
			return bandwidth.Limits{}, err
		}
		if err := setLimit(&l, h.File, text); err != nil {
			return bandwidth.Limits{}, h.Invalid(err)
		}
	}
	return l, nil
}

// openLimits opens the files of the limits, as far as the group has them.
func (r *Reader) openLimits() error {
	files := []cgroup.File{cgroup.CPUMax, cgroup.CPUMaxBurst}
	if r.fs.Layout().CPU == cgroup.V1 {
		files = []cgroup.File{cgroup.CPUCFSQuota, cgroup.CPUCFSPeriod, cgroup.CPUCFSBurst}
	}
	var limits []*cgroup.HeldFile
	for i, f := range files {
		h, err := r.fs.Hold(r.group, f)
		if i == 0 && errors.Is(err, cgroup.ErrNotEnabled) {
			return nil // it may be enabled later
		}
		if (i == 0 || i == len(files)-1) && errors.Is(err, errors.ErrUnsupported) {
			break // no quota, so no period and no burst; or no burst
		}
		if err != nil {
			for _, h := range limits {
				h.Close()
			}
			return err
		}
		limits = append(limits, h)
	}
	r.limits, r.limitsOpened = limits, true
	return nil
}

// setLimit sets what a file contains. The burst comes last, because cpu.max may have another one.
func setLimit(l *bandwidth.Limits, f cgroup.File, text []byte) (err error) {
	switch f {
	case cgroup.CPUMax:
		*l, err = kernfile.CPUMax(text)
	case cgroup.CPUCFSQuota:
		l.Quota, err = kernfile.Quota(text)
	case cgroup.CPUCFSPeriod:
		l.Period, err = kernfile.Microseconds(text)
	default:
		l.Burst, err = kernfile.Microseconds(text)
	}
	return err
}
