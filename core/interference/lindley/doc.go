// Package lindley computes numerically how often one cgroup is throttled, for any independent
// demand and for all bursts at once, with proven bounds.
//
//	throttling, method, err := lindley.Bounds(d, bursts, lindley.DefaultSteps)
//	p, method, err := lindley.Estimate(d, bursts, lindley.DefaultSteps)   // faster, no bounds
//
// Amounts are multiples of the quota. A group saves at most b tokens; backlog is the demand left at
// the end of a period. V = b - tokens + backlog follows
//
//	V' = max(V + X - 1, 0)
//
// for a demand of X, regardless of b: missing tokens and backlog are the same debt. The group was
// throttled in that period if and only if V' > b. The stationary distribution of V therefore
// answers the question for every b. It is the waiting time of a queue with one server and regular
// arrivals (D. V. Lindley, The theory of queues with a single server, 1952). If X is exponential
// with mean u, P(V > b) = sigma^(1+b), where sigma = exp(-(1-sigma)/u).
//
//	throttle.go     arguments and errors; Solve does both
//	      |
//	      +-------------------------------------+
//	      v                                     v
//	estimate.go     demand on a lattice         bounds.go     demand rounded down and up
//	that preserves its mean                     (lattice.go), or between chords where it
//	      |                                     is unimodal (unimodal.go)
//	      v                                     v
//	contour.go      the queue, by Wiener-Hopf factorization with Fourier transforms
//	      v                                     v
//	Richardson extrapolation                    each guess is proven by one step of the queue
//
// The estimate takes 6 to 11 ms, the bounds from tens of milliseconds to seconds: see
// docs/figures.md for times and widths (BenchmarkBounds). More than 1024 steps do not help against
// a heavy tail, because the lattice then ends sooner.
package lindley
