// Package tracefile reads and writes recordings as files: Parquet, CSV, and numpy's .npy, and the
// journal in which a recording is kept while it is made.
//
//	rec, lost, err := tracefile.Read("demo.parquet", 0)
//	recorder, err := tracefile.Record(output, header)    // then Finish
//
// # Columns
//
// Parquet and CSV have one row per cgroup and sample, with the same columns.
//
//	time                 end of the sample, wall clock (UTC): the start of the recording plus monotonic time,
//	                     so that clock steps have no effect
//	group                path of the cgroup in the hierarchy
//	name                 NAMESPACE/POD/CONTAINER; null or empty when not known
//	interval_ns          the real length of the sample
//	usage_ns             CPU time used in it
//	periods              enforcement periods in which the bandwidth timer ran
//	throttled_periods    those of them in which the group was throttled
//	throttled_time_ns    throttled time, summed over CPUs
//	burst_periods        periods in which more than quota was used
//	burst_time_ns        CPU time used beyond quota
//	quota_ns             CPU time per period; null or empty when there is no limit
//	period_ns            the enforcement period
//	burst_ns             unused CPU time that may be saved up
//	late                 the sample was taken too late and covers more than the nominal interval
//	nominal_interval_ns  the planned length of samples
//
// Columns are found by name, in any order, and unknown columns are ignored. Required are time,
// group, interval_ns and usage_ns. The values may have other types than those that are written, and
// CSV may be compressed or have another separator; package tabular has the forms that are read.
// Times that are coarser than the samples are moved within their unit, so that samples do not
// overlap. A Parquet file holds rows in row groups of 131,072, each ordered
// by cgroup and then by time, so that neighbouring values are similar: differences are bit-packed,
// rarely changing values are dictionary-encoded, and the result is compressed with zstd.
//
// An .npy file is a vector of one cgroup's usage, one value per sample, without times. It cannot
// represent late samples and gaps. Integers, of any width and byte order, and timedelta64 are
// nanoseconds of CPU time; 64-bit integers are written. Floating-point numbers are CPUs (CPU time
// over the interval). The reader must be told the sample
// interval.
//
// # Spans
//
// A recording for which threads were traced has a second table, [SpansOf], beside its Parquet file,
// with a row per [trace.Span]. Rows are in row groups as above, ordered by cgroup and thread. The
// metadata of both files say when the recording began, so a table of another recording is
// recognised.
//
//	start               begin of the span, wall clock (UTC), as above
//	length_ns           its length; 0 at an edge, and when a thread leaves a group
//	group, name         as above
//	state               running, waiting, throttled, sleeping, dead or unknown, or edge: a quota's timer ran
//	thread              its number; 0 at an edge, as all numbers about threads
//	process             name of its process; null if not known
//	cpu                 on which it ran, waits or last ran
//	behind              what it waits for; null in other states
//	quota_before_ns     CPU time left in the period before the timer gave out more; 0 except at an edge
//	quota_left_ns       the same afterwards
//	periods             nr_periods
//	throttled_periods   nr_throttled
//	throttled_time_ns   throttled_time, throttled_usec
//
// # Damaged and hostile files
//
// A reader's memory is bounded by the size of its file. The Parquet library allocates according to
// lengths in the file, so these are validated first. The lengths in the footer and in each page
// header are compared with the actual sizes. For the columns that are read, pages are decompressed
// up to the size in their headers, and the counts of runs and differences in them are added up. The
// reader rejects pages of 16 MiB and more, compression other than zstd, snappy, gzip, LZ4_RAW and
// Brotli, and encodings that no writer of numbers uses. Compressed CSV may have up to 64 times the
// size of its file, and 32 MiB.
//
// # The journal
//
// A Parquet file is readable only when its end is written. So samples are first appended to a
// journal beside the output, and [Recorder.Finish] converts the journal to the output and then
// removes it. The output appears whole or not at all: it is written under a temporary name and
// renamed when it is on disk.
//
// A journal is an 8-byte magic number followed by blocks. A block is the length and the CRC-32C of
// its content, 4 bytes each, little endian, and the content, at most 1 MiB. The first block is the
// header. A block is written with one call, when 64 KiB have accumulated or with the first sample
// that is a second later than the last block. A reader uses the blocks up to the first incomplete
// one; the rest is lost. So kill -9 and ctrl-C lose at most the samples of the last second. Every
// five seconds the file is synced in the background, to survive machine crashes.
//
// If a write fails, for example because the disk is full, the journal is truncated to its last
// complete block, accepts no more samples and remains readable. The output needs additional space,
// about half of the journal's. If there is not enough, the journal is kept and can be converted to
// another disk.
package tracefile
