package tracefile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// npyMagic begins every .npy file (numpy/lib/format.py).
const npyMagic = "\x93NUMPY"

// npyHeaderSize leaves space for a count of 20 digits and is a multiple of 64 bytes, as the format
// requires.
const npyHeaderSize = 128

// npyWriter writes the usage of one cgroup in nanoseconds, a 64-bit integer per sample, in version
// 1.0 of the format.
type npyWriter struct {
	file   *os.File
	out    *bufio.Writer
	header Header
	group  string
	last   time.Duration // end of the last sample
	count  int64
	late   int
	gaps   int
}

func newNPYWriter(f *os.File, h Header) (*npyWriter, error) {
	n := &npyWriter{file: f, out: bufio.NewWriterSize(f, 64<<10), header: h}
	if _, err := n.out.Write(npyHeader(0)); err != nil {
		return nil, fmt.Errorf("write .npy: %w", err)
	}
	return n, nil
}

func npyHeader(count int64) []byte {
	dict := fmt.Sprintf("{'descr': '<i8', 'fortran_order': False, 'shape': (%d,), }", count)
	const prefix = len(npyMagic) + 4
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, npyHeaderSize-uint16(prefix))
	b = append(b, dict...)
	b = append(b, strings.Repeat(" ", npyHeaderSize-1-len(b))...)
	return append(b, '\n')
}

func (n *npyWriter) Write(r *Row) error {
	if n.count == 0 {
		n.group, n.last = r.Group, r.Begin()
	}
	if r.Group != n.group {
		return fmt.Errorf("an .npy file holds one group, and there are %s and %s: choose one", n.group, r.Group)
	}
	if (r.Begin() - n.last).Abs() > n.header.Interval/100 {
		n.gaps++
	}
	if r.Late {
		n.late++
	}
	n.last = r.At
	n.count++
	if _, err := n.out.Write(binary.LittleEndian.AppendUint64(nil, uint64(r.Usage))); err != nil {
		return fmt.Errorf("write .npy: %w", err)
	}
	return nil
}

// Close writes the header again, with the final count.
func (n *npyWriter) Close() error {
	if err := n.out.Flush(); err != nil {
		return fmt.Errorf("write .npy: %w", err)
	}
	if _, err := n.file.WriteAt(npyHeader(n.count), 0); err != nil {
		return fmt.Errorf("write .npy: %w", err)
	}
	return nil
}

// note describes what the file cannot represent, "" if nothing was lost.
func (n *npyWriter) note() string {
	if n.late == 0 && n.gaps == 0 {
		return ""
	}
	return fmt.Sprintf("the vector does not show that %d samples were late (longer than the others) and that there were %d gaps", n.late, n.gaps)
}

// npyReader reads a vector as the usage of one cgroup.
type npyReader struct {
	header Header
	group  string
	in     *bufio.Reader
	npy    npyType
	next   int64
}

// newNPYReader reads the header. Because the file has no times, the samples begin in 1970 and
// follow each other without gaps.
func newNPYReader(in io.Reader, group string, interval time.Duration) (*npyReader, error) {
	if interval <= 0 {
		return nil, ErrNoInterval
	}
	n := &npyReader{
		header: Header{Start: time.Unix(0, 0).UTC(), Interval: interval},
		group:  group,
		in:     bufio.NewReaderSize(in, 64<<10),
	}
	var err error
	if n.npy, err = readNPYHeader(n.in); err != nil {
		return nil, fmt.Errorf("read .npy: %w", err)
	}
	if n.npy.count == 0 {
		return nil, ErrEmpty
	}
	return n, nil
}

var errHeaderCut = errors.New("the header is cut off: copy the file again, or save it with numpy.save")

// readNPYHeader reads everything before the values (numpy/lib/format.py): the magic number, two
// bytes for the version, the length of a Python dictionary (2 bytes, or 4 since version 2), and
// that.
func readNPYHeader(in io.Reader) (npyType, error) {
	var head [len(npyMagic) + 2]byte
	var length [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return npyType{}, errHeaderCut
	}
	width := 4
	switch version := head[len(npyMagic)]; {
	case version == 1:
		width = 2
	case version != 2 && version != 3:
		return npyType{}, fmt.Errorf("version %d of the format is unknown: save it with numpy.save", version)
	}
	if _, err := io.ReadFull(in, length[:width]); err != nil {
		return npyType{}, errHeaderCut
	}
	size := binary.LittleEndian.Uint32(length[:])
	if size > 64<<10 {
		return npyType{}, fmt.Errorf("the header has %d bytes: not a vector of numbers", size)
	}
	dict := make([]byte, size)
	if _, err := io.ReadFull(in, dict); err != nil {
		return npyType{}, errHeaderCut
	}
	return parseNPYDict(string(dict))
}

func (n *npyReader) Header() Header { return n.header }

func (n *npyReader) Resolution() time.Duration { return 0 } // the times are multiples of the interval

func (n *npyReader) Next() (*Row, error) {
	if n.next == n.npy.count {
		if _, err := n.in.ReadByte(); !errors.Is(err, io.EOF) {
			return nil, errors.New("read .npy: the file has more values than its header says")
		}
		return nil, io.EOF
	}
	var b [8]byte
	if _, err := io.ReadFull(n.in, b[:n.npy.size]); err != nil {
		return nil, fmt.Errorf("read .npy: the file is cut off: it has %d of %d values", n.next, n.npy.count)
	}
	usage, err := n.npy.usage(b[:n.npy.size], n.header.Interval)
	if err != nil {
		return nil, fmt.Errorf("read .npy: value %d (from 0): %w", n.next, err)
	}
	n.next++
	r := &Row{Group: n.group, Sample: trace.Sample{
		At:       time.Duration(n.next) * n.header.Interval,
		Interval: n.header.Interval,
		Usage:    usage,
		Limits:   bandwidth.Limits{Quota: bandwidth.Unlimited, Period: trace.DefaultPeriod},
		Unknown:  trace.UsageOnly,
	}}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("read .npy: value %d (from 0): %w", n.next-1, err)
	}
	return r, nil
}

// maxCPUs is the largest number of CPUs for which Linux can be built (CONFIG_NR_CPUS on x86-64).
const maxCPUs = 8192

// usage converts a value to CPU time: an integer is nanoseconds, a floating-point number is CPUs.
func (t npyType) usage(b []byte, interval time.Duration) (time.Duration, error) {
	if t.kind != 'f' {
		return t.nanoseconds(b)
	}
	var cpus float64
	if t.size == 8 {
		cpus = math.Float64frombits(t.order.Uint64(b))
	} else {
		cpus = float64(math.Float32frombits(t.order.Uint32(b)))
	}
	ns := math.Round(cpus * float64(interval))
	switch {
	case cpus > maxCPUs && !math.IsInf(cpus, 0):
		return 0, fmt.Errorf("%v is too large for a number of CPUs: if it is nanoseconds, save a.astype('<i8')", cpus)
	case !(ns >= 0 && ns < math.MaxInt64):
		return 0, fmt.Errorf("%v is not a number of CPUs", cpus)
	}
	return time.Duration(ns), nil
}

func (t npyType) nanoseconds(b []byte) (time.Duration, error) {
	var bits uint64
	switch t.size {
	case 1:
		bits = uint64(b[0])
	case 2:
		bits = uint64(t.order.Uint16(b))
	case 4:
		bits = uint64(t.order.Uint32(b))
	default:
		bits = t.order.Uint64(b)
	}
	if t.kind == 'u' {
		if bits > math.MaxInt64 {
			return 0, fmt.Errorf("%d is too large for nanoseconds", bits)
		}
		return time.Duration(bits), nil
	}
	unused := 64 - 8*t.size
	n := time.Duration(int64(bits<<unused) >> unused) // extends the sign
	if n*t.unit/t.unit != n {
		return 0, fmt.Errorf("%d times %v is too large", int64(n), t.unit)
	}
	return n * t.unit, nil
}
