// Package tracefile keeps recordings in files: Parquet, CSV, numpy's .npy, and the
// journal that a recording is while it is made.
//
// # Columns
//
// Parquet and CSV have one row per control group and sample, with the same columns.
//
//	time                 end of the sample, wall clock (UTC): the start of the recording plus monotonic time, so
//	                     that a step of the clock moves nothing
//	group                path of the control group in the hierarchy
//	name                 NAMESPACE/POD/CONTAINER; null or empty when not known
//	interval_ns          how long the sample really was
//	usage_ns             CPU time used in it
//	periods              enforcement periods in which the bandwidth timer ran
//	throttled_periods    of these, in which the group was throttled
//	throttled_time_ns    for how long it was, summed over CPUs
//	burst_periods        periods in which more than quota was used
//	burst_time_ns        CPU time used beyond quota
//	quota_ns             CPU time per period; null or empty when there is no limit
//	period_ns            the enforcement period
//	burst_ns             unused CPU time that may be saved up
//	late                 the sample was taken too late and covers more than the nominal interval
//	nominal_interval_ns  how long samples should be
//
// Columns are found by name, in any order, and unknown ones are passed over; those that
// must be there are time, group, interval_ns and usage_ns. A Parquet file holds rows
// in groups of 131,072, each in the order of control groups and then of time, so that
// neighbours in a column resemble each other: differences are packed into few bits, what
// seldom changes is a dictionary, and zstd is on top.
//
// An .npy file is a vector of one control group's usage, a value per sample, without times:
// late samples and gaps cannot be seen in it. Integers are nanoseconds of CPU time, which is
// what is written; floating-point numbers are CPUs (CPU time over the interval). How long the
// samples are must be said when it is read.
//
// # Damaged and hostile files
//
// A reader's memory is bounded by the size of its file. For Parquet the library makes room
// for what lengths in the file say, so these are compared with each other before: those of the
// footer and of each page's header with what is there, and for the columns that are read,
// pages are decompressed as far as their headers say, and the counts of runs and
// differences in them added up. Pages of 16 MiB and more, compression other than
// zstd, snappy and gzip, and encodings that no writer of numbers chooses are refused.
//
// # The journal
//
// A Parquet file can be read only once its end is written. So while a recording goes on,
// samples are appended to a journal beside the output, and [Recorder.Finish] makes the
// output of it and then removes it. The output appears whole or not at all: it is
// written under another name and given its own when it is on the disk.
//
// A journal is an 8-byte magic number and then blocks: the length and the CRC-32C of
// the content, 4 bytes each, little endian, and the content, at most 1 MiB. The first block
// is the header. A block is written with one call, when 64 KiB are gathered or with the
// first sample that is a second later than the last block. A reader takes the blocks up to
// the first that is not whole; what follows is lost. So kill -9 and ctrl-C lose at most the
// samples of the last second. Every five seconds the file is synced in the background, for
// the sake of machines that crash. When a write fails, for a full disk say, the journal is
// cut back to its last whole block, takes no more samples and stays readable. The output
// takes room, too, about half of the journal's; when there is not enough the journal
// is kept, and can be converted to another disk.
package tracefile
