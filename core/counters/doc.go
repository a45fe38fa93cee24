// Package counters judges workloads by the counters that monitoring systems read every few seconds
// to minutes: CPU time, periods, throttled periods and throttled time.
//
//	verdict := counters.Judge(containers, 24*time.Hour, counters.DefaultGoal())
//
// # What counters tell, and what they hide
//
// Counters are sums, so the share of throttled periods is known exactly, and its interval shows how
// much times differ: it is a Student interval of the jackknife over slices, such as days. The share
// of all periods, in which users may feel the throttling, is smaller than the kernel's ratio, of the
// periods in which the timer ran: it does not run while a container is idle.
//
// Which limit would not throttle is not in the sums: twice as many bursts of half the size have the
// same. But throttled time tells how many CPUs were held back. A container that runs on k CPUs has
// used its quota q after q/k of the period p and is throttled on k CPUs for the rest: for k p - q of
// CPU time. So of a burst that lasts for several periods, k is (s + q) / p, with the throttled time s
// of a throttled period. A burst that begins in the middle of a period shows as little as half of
// that in it. So k is between (s + q) / p and (2 s + q) / p on average, and a limit of k CPUs does not
// throttle. A smaller one may do as well: that takes a recording, or the agent's histogram of demand.
// Of recordings of real programs, reduced to counters under limits that throttled them, none was
// throttled above the goal with the advised limit (bench, TestRecordings).
//
// A container that was hardly throttled wanted little more than its limit, in nearly all periods.
// Nothing follows for a lower limit. It would free nothing, either: CPUs are reserved by requests.
//
// # With an agent
//
// Agents count what threads wanted in each period ([Histogram]), also where a limit cut that short.
// The smallest limit follows from package lindley, for independent periods. If the kernel has
// throttled the container more than twice as often as that says, its demand comes in waves, and the
// limit is that from counters. A container that was hardly throttled gets a lower limit if half of
// the present one would do.
//
// # Requests
//
// A request is a share of the CPUs while all are wanted, and counts when pods are placed. Usage over
// minutes is what matters for both, and what counters show. The usual size of a request is a high
// quantile of it. Usage that the limit has cut says nothing about requests.
package counters
