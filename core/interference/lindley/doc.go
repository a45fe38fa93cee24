// Package lindley computes numerically how often one cgroup is throttled, for any independent
// demand and for all bursts at once, with proven bounds.
//
//	throttling, method, err := lindley.Bounds(d, bursts, lindley.DefaultSteps)
//	p, method, err := lindley.Estimate(d, bursts, lindley.DefaultSteps)   // faster, no bounds
//
// # The queue
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
// # The estimate
//
// Demand is discretised to a lattice of n points per quota such that its mean is preserved: mass
// between two points goes to both, more to the nearer. On the lattice, V is the all-time maximum of
// a random walk with steps Y = n(X - 1). With phi(z) = E z^Y, Spitzer's identity (1956) gives the
// generating function of V from the positive powers of log(1 - phi(z)):
//
//	E z^V = P(V = 0) exp(-sum over k > 0 of c[k] z^k),    log((1 - phi(z)) / (1 - 1/z)) = sum over all k of c[k] z^k
//
// This is the Wiener-Hopf factorization (1931). Dividing by 1 - 1/z removes the zero at z = 1. The
// coefficients come from a Fourier transform on a circle |z| = r, and the tails P(V > k) from (1 -
// E z^V)/(1 - z) by another. The aliasing of the finite transform is damped:
//
//   - Bounded demand (its CDF becomes 1) uses r > 1, halfway to where E r^Y is 1 again. There |phi|
//     < 1, so the logarithm is well defined, and the tails are accurate far below the precision of
//     a sum of probabilities.
//   - Heavy-tailed demand has no moments outside the unit circle and uses r slightly below 1. It
//     need not be truncated. Zeros of 1 - phi between the circle and 1, which stepwise demand has,
//     are detected because the logarithm does not close. The circle is then moved nearer to 1; as a
//     last resort, demand is truncated.
//
// A lattice represents a density, so half of the mass at b counts as above it. At b = 0 this
// applies to V + X - 1 before it is cut at 0. The error falls as 1/n^2 and is removed by Richardson
// extrapolation of n/2 and n. At 256 steps it is 1e-10 for exponential demand and 1e-7 for Pareto
// of shape 4, which has a kink; both at u = .7, b = 0 to 4.
//
// # The bounds
//
// Let G be tails P(V > t), and (A G)(t) = P(X > 1 + t) + E[G(1 + t - X); X <= 1 + t] the tails one
// period later. A is monotone in G and in demand. In the norm sup G(t) exp(rho t) it contracts
// differences by phi = E exp(rho (X - 1)), which is below 1 for small rho > 0. Hence any guess G,
// however obtained, can be verified by applying A once: its error is at most |A G - G| / (1 - phi)
// in that norm. The proof does not rely on the estimate; rounding in the transforms is part of the
// residual.
//
//   - Any demand: it is rounded down and up to the lattice, and both queues are solved and proven.
//     The width is about proportional to 1/n: the demands differ by 1/n. If the CDF is known at the
//     points only, no narrower bounds hold. If all demand is on the lattice, both queues are the
//     same and the width is from about 1e-12 to 1e-9.
//   - Unimodal demand ([Unimodal]): P(X > x) is convex above the mode and concave below it, so it
//     lies between chords: unchanged, slightly lowered, or extended beyond their cell. These are
//     piecewise linear, as is the guess. A of the guess is piecewise quadratic and known exactly at
//     and between the points. The two factors invert G - A G. Applied to the residual A G - G of
//     the estimate G, this inverse gives the correction that raises G to an upper bound. The
//     remainder is proven as above. Besides exp(-rho t), a multiple of G itself serves as a margin:
//     (1 + c) G is an upper bound if (1 + c) (A G - G) <= c P(X > 1 + t). The lower bound works the
//     same way. The width is about proportional to 1/n^2.
//
// Amounts that differ by a factor of less than 2^-48 count as equal, so a burst may be on the
// lattice although its product with the steps is not exactly an integer. Values that the CDF cannot
// distinguish from 1 count as 1.
//
// Unbounded demand is truncated at T quotas, which gives a queue V1 <= V. They differ only after a
// demand beyond T, until V1 has caught up. In that time V is never cut at 0, so by Wald's identity
// it lasts at most (E V1 + E[X | X > T]) / (1 - u) periods on average, and
//
//	P(V > b) <= P(V1 > b) + (P(X > T) E V1 + E[X; X > T]) / (1 - u).
//
// T doubles until the added term is less than the error of the lattice, or the lattice is full. If
// the term is a half or more, the error is [ErrUncertain]. A CDF cannot show tails below 1e-16; the
// part of the mean that the CDF does not show is added to E[X; X > T].
//
// The estimate takes 6 to 11 ms, the bounds from tens of milliseconds to seconds: see
// docs/figures.md for times and widths (BenchmarkBounds). More than 1024 steps do not help against
// a heavy tail, because the lattice then ends sooner.
package lindley
