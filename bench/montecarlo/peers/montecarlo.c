// The model of core/interference in plain C: one replica after the other, one group after
// the other. Arguments: mean burst groups replicas periods warm-up seed; the mean and the
// burst in quotas, the periods those of one replica. Prints what bench/montecarlo reads.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIGURES = 6, LONGEST = 64, MOST = 1024 };
static const char *names[FIGURES] = {"expectedWCET", "probabilityWCET1", "throttleRatio", "backlog", "burstUse", "demand"};

// xoshiro256++ of Blackman and Vigna, its state filled by splitmix64.
static uint64_t state[4];

static uint64_t rotate(uint64_t x, int k) { return x << k | x >> (64 - k); }

static uint64_t next(void) {
	uint64_t result = rotate(state[0] + state[3], 23) + state[0], t = state[1] << 17;
	state[2] ^= state[0];
	state[3] ^= state[1];
	state[1] ^= state[2];
	state[0] ^= state[3];
	state[2] ^= t;
	state[3] = rotate(state[3], 45);
	return result;
}

static void seed(uint64_t x) {
	for (int i = 0; i < 4; i++) {
		uint64_t z = x += 0x9e3779b97f4a7c15;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		state[i] = z ^ z >> 31;
	}
}

// exponential draws from the distribution of mean 1, by inversion of numbers in (0, 1].
static double exponential(void) { return -log((double)((next() >> 11) + 1) * 0x1p-53); }

static int ascending(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

// level returns how high the water stands when free, less than the sum, is poured over wants.
static double level(const double *want, int m, double free) {
	static double sorted[MOST];
	for (int i = 0; i < m; i++)
		sorted[i] = want[i];
	qsort(sorted, m, sizeof *sorted, ascending);
	for (int i = 0; i < m; i++) {
		if (sorted[i] * (m - i) >= free)
			return free / (m - i);
		free -= sorted[i];
	}
	return sorted[m - 1];
}

struct sums {
	double missed, wcet, throttled, backlog, burst, demand;
};

static double need[MOST], token[MOST], want[MOST];

// period steps all groups and returns whether the deadline was missed (rule: strict).
static int period(double mean, double most, int m, struct sums *s) {
	double free = 0, wants = 0, top = INFINITY;
	for (int i = 0; i < m; i++) {
		double x = mean * exponential();
		s->demand += x;
		need[i] += x;
		if (need[i] > 1 + token[i])
			s->throttled++;
		if (need[i] <= 1) {
			free += 1 - need[i];
			token[i] = fmin(most, token[i] + 1 - need[i]);
			need[i] = 0;
		} else {
			need[i] -= 1;
		}
		want[i] = fmin(need[i], token[i]);
		wants += want[i];
	}
	if (wants > free)
		top = level(want, m, free);
	for (int i = 0; i < m; i++) {
		double got = fmin(want[i], top);
		need[i] -= got;
		token[i] -= got;
		s->burst += got;
		s->backlog += need[i];
	}
	return wants > free;
}

// count adds the WCETs of the first so many periods of a run of misses, and returns their sum.
static double count(long *histogram, long length, long counted) {
	double sum = 0;
	for (long w = length + 1; w > length + 1 - counted; w--) {
		sum += w;
		histogram[w < LONGEST ? w : LONGEST]++;
	}
	return sum;
}

static double seconds(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
	if (argc != 8) {
		fprintf(stderr, "usage: montecarlo MEAN BURST GROUPS REPLICAS PERIODS WARMUP SEED\n");
		return 2;
	}
	double mean = atof(argv[1]), most = atof(argv[2]);
	int m = atoi(argv[3]), replicas = atoi(argv[4]);
	long periods = atol(argv[5]), warmup = atol(argv[6]);
	if (m < 1 || m > MOST || replicas < 2 || periods < 1) {
		fprintf(stderr, "montecarlo: 1 to %d groups, 2 or more replicas, 1 or more periods\n", MOST);
		return 2;
	}
	double total[FIGURES] = {0}, squares[FIGURES] = {0};
	long histogram[LONGEST + 1] = {0};
	double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
	for (int r = 0; r < replicas; r++) {
		seed(atol(argv[7]) * 1000003 + r);
		for (int i = 0; i < m; i++) {
			need[i] = 0;
			token[i] = most;
		}
		struct sums s = {0}, after = {0};
		for (long p = 0; p < warmup; p++)
			period(mean, most, m, &after);
		long run = 0;
		for (long p = 0; p < periods; p++) {
			if (period(mean, most, m, &s)) {
				run++;
				s.missed++;
			} else {
				s.wcet += count(histogram, run, run);
				run = 0;
			}
		}
		long length = run; // with what comes of the last run after what is counted
		while (length > 0 && period(mean, most, m, &after))
			length++;
		s.wcet += count(histogram, length, run);
		histogram[1] += periods - s.missed;
		double n = periods, each = n * m;
		double figures[FIGURES] = {(s.wcet + n - s.missed) / n, 1 - s.missed / n, s.throttled / each,
			s.backlog / each, s.burst / each, s.demand / each};
		for (int f = 0; f < FIGURES; f++) {
			total[f] += figures[f];
			squares[f] += figures[f] * figures[f];
		}
	}
	wall = seconds(CLOCK_MONOTONIC) - wall;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("{\"periods\":%ld,\"wallSeconds\":%.9g,\"cpuSeconds\":%.9g,\"wcet\":[", replicas * (periods + warmup), wall, cpu);
	for (int w = 0; w <= LONGEST; w++)
		printf("%s%ld", w ? "," : "", histogram[w]);
	printf("]");
	for (int f = 0; f < FIGURES; f++) {
		double average = total[f] / replicas, variance = fmax(0, squares[f] / replicas - average * average);
		printf(",\"%s\":{\"value\":%.12g,\"standardError\":%.6g}", names[f], average, sqrt(variance / (replicas - 1)));
	}
	printf("}\n");
	return 0;
}
