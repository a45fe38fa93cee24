// Package trace holds recordings of the CPU usage and throttling of cgroups at fine timescales, and
// computes statistics from them. Package tracefile reads and writes them as files.
//
//	summary := trace.Summarise(series, nominal)   // statistics per enforcement period
//	scales := trace.Timescales(series, nominal)   // maximum and P99 usage per window length
//	demand, err := series.Demand(nominal, period) // usage corrected for throttling
//
//	                  Series: samples of a group, or traced spans of its threads
//	       +--------------------+--------------------------------+
//	       v                    v                                v
//	summary.go, bins.go    timescales.go    demand.go: exact.go, or demandsegment.go,
//	       |                    |           demandlayers.go
//	       v                    v                                v
//	    Summary               Scale                           Demand
//
// # Usage is not demand
//
// A throttled group would have used more. Samples in which throttling was counted or throttled time
// passed are throttled samples. Values that include them are usage; demand may have been higher.
// The following samples show more than demand, because delayed work is done then.
// [Summary.ThrottledShare] and [Scale.Throttled] report how much of the data is affected, and
// [Series.Demand] recovers demand as far as possible.
//
// Demand is uncertain where threads waited for CPUs, too: [Series.Bounds] are the least and the most
// that the group may have wanted.
//
// Demand that never arrived because of throttling cannot be recovered. Clients that wait for an
// answer send less while they wait, infinite loops do not make up for lost time, and programs adapt
// to their limit. None of that is in the recording.
package trace
