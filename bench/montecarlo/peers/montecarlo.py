"""The model of core/interference in numpy: a row for each group, all replicas in it; one period at a time.

Arguments: mean burst groups replicas periods warm-up seed; the mean and the burst in quotas,
the periods those of one replica. Prints what bench/montecarlo reads.
"""

import json
import sys
import time

import numpy as np

LONGEST = 64


class Replicas:
    """Groups of all replicas, each with a quota of 1."""

    def __init__(self, mean, burst, groups, replicas, seed):
        self.mean, self.burst = mean, burst
        self.random = np.random.default_rng(seed)  # PCG64, exponential by ziggurat
        shape = (groups, replicas)
        self.need, self.token = np.zeros(shape), np.full(shape, burst)
        self.demand, self.spare, self.want = np.empty(shape), np.empty(shape), np.empty(shape)
        self.reset()

    def reset(self):
        n = self.need.shape[1]
        self.sums = {name: np.zeros(n) for name in ("missed", "wcet", "throttled", "backlog", "burst", "demand")}
        self.run = np.zeros(n, dtype=np.int64)
        self.runs = np.zeros(1, dtype=np.int64)  # how many ended, by their length

    def period(self):
        need, token, spare, want, sums = self.need, self.token, self.spare, self.want, self.sums
        self.random.standard_exponential(out=self.demand)
        self.demand *= self.mean
        sums["demand"] += self.demand.sum(axis=0)
        need += self.demand
        need -= 1
        sums["throttled"] += np.count_nonzero(need > token, axis=0)
        np.negative(need, out=spare)
        np.maximum(spare, 0, out=spare)
        free = spare.sum(axis=0)
        token += spare
        np.minimum(token, self.burst, out=token)
        np.maximum(need, 0, out=need)
        np.minimum(need, token, out=want)
        wants = want.sum(axis=0)
        missed = wants > free
        if missed.any():
            short = want[:, missed]
            want[:, missed] = np.minimum(short, level(short, free[missed]))
            wants = np.minimum(wants, free)
        need -= want
        token -= want
        sums["burst"] += wants
        sums["backlog"] += need.sum(axis=0)
        return missed

    def count(self, missed):
        """Counts the misses, and the runs of them that have ended: k+1, k, ..., 2 periods until success."""
        self.sums["missed"] += missed
        ended = ~missed & (self.run > 0)
        if ended.any():
            k = self.run[ended]
            self.sums["wcet"][ended] += k * (k + 3) / 2
            counts = np.bincount(k, minlength=len(self.runs))
            counts[: len(self.runs)] += self.runs
            self.runs = counts
            self.run[ended] = 0
        self.run += missed

    def finish(self):
        """Goes on until the last runs are over; returns the sums and how many periods have which WCET."""
        sums = {name: values.copy() for name, values in self.sums.items()}
        length, going = self.run.copy(), self.run > 0
        while going.any():
            going &= self.period()
            length += going
        sums["wcet"] += self.run * (2 * length + 3 - self.run) / 2
        counts = np.zeros(LONGEST + 1, dtype=np.int64)
        whole = [(k, k, n) for k, n in enumerate(self.runs)]
        for counted, k, n in whole + [(c, k, 1) for c, k in zip(self.run, length)]:
            for w in range(k + 2 - counted, k + 2):
                counts[min(w, LONGEST)] += n
        return sums, counts


def level(want, free):
    """How high the water stands when free, less than the sum, is poured over each column."""
    want = np.sort(want, axis=0)
    m = len(want)
    below = np.cumsum(want, axis=0) - want  # what those before take
    levels = (free - below) / np.arange(m, 0, -1)[:, None]  # if all from here on have it
    first = np.argmax(want >= levels, axis=0)
    return levels[first, np.arange(len(free))]


def main():
    mean, burst = float(sys.argv[1]), float(sys.argv[2])
    groups, replicas, periods, warmup, seed = (int(a) for a in sys.argv[3:8])
    wall, cpu = time.perf_counter(), time.process_time()
    r = Replicas(mean, burst, groups, replicas, seed)
    for _ in range(warmup):
        r.period()
    r.reset()
    for _ in range(periods):
        r.count(r.period())
    s, counts = r.finish()
    counts[1] = periods * replicas - s["missed"].sum()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    each = periods * groups
    figures = {
        "expectedWCET": 1 + (s["wcet"] - s["missed"]) / periods,
        "probabilityWCET1": 1 - s["missed"] / periods,
        "throttleRatio": s["throttled"] / each,
        "backlog": s["backlog"] / each,
        "burstUse": s["burst"] / each,
        "demand": s["demand"] / each,
    }
    out = {"periods": replicas * (periods + warmup), "wallSeconds": wall, "cpuSeconds": cpu, "wcet": counts.tolist()}
    for name, values in figures.items():
        out[name] = {"value": values.mean(), "standardError": values.std(ddof=1) / np.sqrt(replicas)}
    print(json.dumps(out))


main()
