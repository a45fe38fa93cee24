// Package needed finds, while a container runs, what it wanted in each enforcement period, and the
// smallest limit that would not have throttled it there. Counts of such limits tell which limit throttles
// which share of the periods, and may be added up over replicas and days.
//
//	var m needed.Meter
//	m.Add(sample, func(p needed.Period) { wanted.Add(p.CPUs); limits.Add(p.Limit) })
//
// Samples of a container that is throttled say what it was given. What it wanted is estimated from what
// it used later ([trace.Recover]), so the periods of a throttled time follow when that has ended.
//
// Which limit a period needs depends on those before it: what is saved in one is used in the next. So the
// meter goes along with as many bandwidth controllers as there are buckets of limits, each with a burst of
// its quota.
package needed
