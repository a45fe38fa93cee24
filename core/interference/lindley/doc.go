// Package lindley computes how often one control group is throttled, for every burst at once
// and for any independent demand, with proven bounds.
//
// # The queue
//
// Amounts are multiples of the quota. A group has at most b tokens saved up; backlog is
// what it still wants at the end of a period. V = b - tokens + backlog then follows
//
//	V' = max(V + X - 1, 0)
//
// for a demand of X, whatever b is: tokens that are missing and backlog are the same debt.
// The group was throttled in that period if and only if V' > b. So the stationary law
// of V answers for every b. This is the waiting time of a queue with one server and
// regular arrivals (D. V. Lindley, The theory of queues with a single server, 1952).
// With X exponential of mean u it is P(V > b) = sigma^(1+b), where sigma = exp(-(1-sigma)/u).
//
// # The estimate
//
// Demand is moved to a lattice of n points in a quota such that its mean stays: what lies
// between two points goes to both, more to the nearer. On the lattice V is the highest
// point ever of a random walk with steps Y = n(X - 1). With phi(z) = E z^Y, Spitzer's
// identity (1956) says that the generating function of V is made of the powers above 0 of
// log(1 - phi(z)):
//
//	E z^V = P(V = 0) exp(-sum over k > 0 of c[k] z^k),    log((1 - phi(z)) / (1 - 1/z)) = sum over all k of c[k] z^k
//
// which is the factorization of Wiener and Hopf (1931). Dividing by 1 - 1/z takes the zero at
// z = 1 away. The coefficients come from a Fourier transform on a circle |z| = r, and the
// tails P(V > k) from (1 - E z^V)/(1 - z) by another. What the finite transform wraps around
// is damped:
//
//   - Demand that ends (its CDF becomes 1) has r > 1, halfway to where E r^Y is 1 again.
//     There |phi| < 1, so nothing can go wrong, and tails far below the precision of a
//     sum of probabilities come out.
//   - Demand with a heavy tail has no moments outside, and r a bit below 1. It need not be
//     truncated. Zeros of 1 - phi between the circle and 1, which demand in steps has, are
//     noticed, as the logarithm does not close; then the circle is drawn nearer to
//     1, and at last demand is cut.
//
// A lattice stands for a density, so half of what lies at b counts as above it; at b = 0 this
// is taken of V + X - 1, before it is cut. The error falls as 1/n^2 and is taken away by
// combining n/2 and n after Richardson. At 256 steps it is 1e-10 for exponential
// demand and 1e-7 for Pareto of shape 4, which has a kink; both at u = .7, b = 0 to 4.
//
// # The bounds
//
// Let G be tails P(V > t), and (A G)(t) = P(X > 1 + t) + E[G(1 + t - X); X <= 1 + t] those one
// period later. A is monotone, in G and in demand. Measured in the norm sup G(t) exp(rho t), it
// shrinks differences by phi = E exp(rho (X - 1)), which is below 1 for small rho > 0. Hence
// whoever guesses G, by whatever means, can prove how good it is by applying A once:
// the error is at most |A G - G| / (1 - phi) in that norm. So nothing rests on the
// estimate; rounding in the transforms is part of the residual.
//
//   - Any demand: it is rounded down and up to the lattice, and both queues are solved and
//     proven. The width is about proportional to 1/n: it is that of X -+ 1/n. With the
//     CDF known at the points only, nothing narrower is true. When all demand is on the
//     lattice both are the same, and the width is some 1e-12.
//   - Demand with one mode ([Unimodal]): P(X > x) is convex beyond the mode and concave
//     before it, so it lies between chords: plain, lowered a little, or drawn on beyond
//     their cell. These are piecewise linear, and so is the guess; A of it is piecewise
//     quadratic, and known exactly at the points and between them. What A adds to the estimate is put through the inverse
//     of G - A G, which the two factors give, and moves it up; what is then left is proven
//     as above. Besides exp(-rho t), a multiple of G itself serves as a margin: (1 + c) G
//     is a proof where A G - G <= c P(X > 1 + t). The same downwards. The width is about
//     proportional to 1/n^2.
//
// Amounts that differ by less than 2^-48 of them count as the same, so a burst may lie on the
// lattice though its product with the steps does not quite; and what the CDF cannot tell from
// 1 counts as 1.
//
// Demand without end is cut at T quotas, which gives a queue V1 <= V. They differ only
// after a demand beyond T, until V1 has caught up. In that time V is never cut at 0, so by
// Wald's identity it lasts at most (E V1 + E[X | X > T]) / (1 - u) periods on average, and
//
//	P(V > b) <= P(V1 > b) + (P(X > T) E V1 + E[X; X > T]) / (1 - u).
//
// T doubles until that adds less than the lattice does, or the lattice is full. When it is
// a half or more, [ErrUncertain] says so. Tails below 1e-16 cannot be seen in a CDF; what the mean
// has beyond what the CDF shows is added to E[X; X > T].
//
// Time, and width relative to the probability at b = 0 and b = 4, for u = .7 (two CPUs of an
// Intel Xeon that others used too, November 2026; BenchmarkBounds):
//
//	              steps    time   b = 0   b = 4
//	exponential     256   60 ms   9e-6    4e-5
//	               1024   .3 s    6e-7    2e-6
//	               4096   1.2 s   4e-8    2e-7
//	Pareto, 4       256   .14 s   2e-4    2e-3
//	               1024   2.4 s   9e-6    4e-5
//	exponential,    256   50 ms   9e-3    3e-2
//	by its CDF     1024   .2 s    2e-3    8e-3
//	               4096   .8 s    6e-4    2e-3
//
// The estimate takes 6 to 11 ms.
//
// More steps than 1024 do not help against a heavy tail, as the lattice then ends sooner.
package lindley
