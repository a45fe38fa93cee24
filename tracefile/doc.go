// Package tracefile reads and writes recordings as files: Parquet, CSV, and numpy's .npy, and the
// journal in which a recording is kept while it is made.
//
//	rec, lost, err := tracefile.Read("demo.parquet", 0)
//	recorder, err := tracefile.Record(output, header)    // then Finish
//
// # Columns
//
// Parquet and CSV have one row per cgroup and sample, with the same columns: the fields of record.
// Times are the start of the recording plus monotonic time, so that clock steps have no effect.
//
// Columns of CSV are found by name, in any order, and unknown columns are ignored. Required are time,
// group, interval_ns and usage_ns; a figure without a column or a value is unknown. The file may be
// compressed or have another separator; package tabular has the forms that are read. Times that are
// coarser than the samples are moved within their unit, so that samples do not overlap.
//
// A Parquet file holds rows in row groups of 131,072, each ordered by cgroup and then by time, so
// that neighbouring values are similar: differences are bit-packed, rarely changing values are
// dictionary-encoded, and the result is compressed with zstd. Of Parquet files only those of this
// package are read; other programs convert theirs to CSV.
//
// An .npy file is a vector of one cgroup's usage, one value per sample, without times. It cannot
// represent late samples and gaps. Integers, of any width and byte order, and timedelta64 are
// nanoseconds of CPU time; 64-bit integers are written. Floating-point numbers are CPUs (CPU time
// over the interval). The reader must be told the sample interval.
//
// # Spans
//
// A recording for which threads were traced has a second table, [SpansOf], beside its Parquet file,
// with a row per [trace.Span]: the fields of spanRecord. Rows are in row groups as above, ordered
// by cgroup and thread. The metadata of both files say when the recording began, so a table of
// another recording is recognised.
//
// # Damaged and hostile files
//
// A reader's memory is bounded by the size of its file. The Parquet library allocates according to
// lengths in the file, so these are validated first: those in the footer and in each page header are
// compared with the actual sizes, pages are decompressed up to the size in their headers, and the
// counts of runs and differences in them are added up. A row group is at most 64 MiB. Compressed CSV
// may have up to 64 times the size of its file, and 32 MiB.
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
