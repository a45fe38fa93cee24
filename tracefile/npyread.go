package tracefile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// npyReader reads a vector as the usage of one control group.
type npyReader struct {
	header Header
	group  string
	in     *bufio.Reader
	npy    npyType
	next   int64
}

// newNPYReader reads the header. The samples begin in 1970, as nothing says when they
// were taken, and follow each other without a gap.
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

// readNPYHeader reads what comes before the values (numpy/lib/format.py).
func readNPYHeader(in io.Reader) (npyType, error) {
	var head [len(npyMagic) + 2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return npyType{}, fmt.Errorf("the header is cut off: %w", err)
	}
	if string(head[:len(npyMagic)]) != npyMagic {
		return npyType{}, errors.New("it does not begin as an .npy file does")
	}
	size, err := npyDictSize(in, head[len(npyMagic)])
	if err != nil {
		return npyType{}, err
	}
	dict := make([]byte, size)
	if _, err := io.ReadFull(in, dict); err != nil {
		return npyType{}, fmt.Errorf("the header is cut off: %w", err)
	}
	return parseNPYDict(string(dict))
}

func npyDictSize(in io.Reader, version byte) (int, error) {
	var b [4]byte
	width := 2
	switch version {
	case 1:
	case 2, 3:
		width = 4
	default:
		return 0, fmt.Errorf("version %d of the format is not known: save it with numpy.save", version)
	}
	if _, err := io.ReadFull(in, b[:width]); err != nil {
		return 0, fmt.Errorf("the header is cut off: %w", err)
	}
	size := binary.LittleEndian.Uint32(b[:])
	if size > 64<<10 {
		return 0, fmt.Errorf("the header has %d bytes: it is no vector of numbers", size)
	}
	return int(size), nil
}

func (n *npyReader) Header() Header { return n.header }

func (n *npyReader) Next() (*Row, error) {
	if n.next == n.npy.count {
		if _, err := n.in.ReadByte(); !errors.Is(err, io.EOF) {
			return nil, errors.New("read .npy: there is more in the file than its header says")
		}
		return nil, io.EOF
	}
	var b [8]byte
	if _, err := io.ReadFull(n.in, b[:n.npy.size]); err != nil {
		return nil, fmt.Errorf("read .npy: the file is cut off: it has %d of %d values", n.next, n.npy.count)
	}
	usage, err := n.npy.usage(b, n.header.Interval)
	if err != nil {
		return nil, fmt.Errorf("read .npy: value %d (from 0): %w", n.next, err)
	}
	n.next++
	r := &Row{Group: n.group, Sample: trace.Sample{
		At:       time.Duration(n.next) * n.header.Interval,
		Interval: n.header.Interval,
		Usage:    usage,
		Limits:   bandwidth.Limits{Quota: bandwidth.Unlimited, Period: n.header.Interval},
	}}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("read .npy: value %d (from 0): %w", n.next-1, err)
	}
	return r, nil
}

// usage turns a value into CPU time: an integer is nanoseconds, anything else CPUs.
func (t npyType) usage(b [8]byte, interval time.Duration) (time.Duration, error) {
	bits := binary.LittleEndian.Uint64(b[:])
	var cpus float64
	switch {
	case t.integer && t.size == 8:
		return time.Duration(int64(bits)), nil
	case t.integer:
		return time.Duration(int32(bits)), nil
	case t.size == 8:
		cpus = math.Float64frombits(bits)
	default:
		cpus = float64(math.Float32frombits(uint32(bits)))
	}
	ns := math.Round(cpus * float64(interval))
	if !(ns >= 0 && ns < math.MaxInt64) {
		return 0, fmt.Errorf("%v is no number of CPUs", cpus)
	}
	return time.Duration(ns), nil
}
