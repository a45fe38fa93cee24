package tracefile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"
)

// npyMagic begins every .npy file (numpy/lib/format.py).
const npyMagic = "\x93NUMPY"

// npyHeaderSize leaves room for a count of 20 digits, and keeps the data at a multiple of
// 64 bytes as the format wants.
const npyHeaderSize = 128

// writeSeeker is what an .npy file is written to: the count of values stands before them,
// and is known at the end.
type writeSeeker interface {
	io.Writer
	io.WriterAt
}

// npyWriter writes the usage of one control group as nanoseconds, a 64-bit integer per
// sample, in version 1.0 of the format.
type npyWriter struct {
	file   writeSeeker
	out    *bufio.Writer
	header Header
	group  string
	last   time.Duration // end of the last sample
	count  int64
	late   int
	gaps   int
}

func newNPYWriter(w writeSeeker, h Header) (*npyWriter, error) {
	n := &npyWriter{file: w, out: bufio.NewWriterSize(w, 64<<10), header: h}
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

func (n *npyWriter) Close() error {
	if err := n.out.Flush(); err != nil {
		return fmt.Errorf("write .npy: %w", err)
	}
	if _, err := n.file.WriteAt(npyHeader(n.count), 0); err != nil {
		return fmt.Errorf("write .npy: %w", err)
	}
	return nil
}

// Note says what the file cannot hold, "" when that is nothing.
func (n *npyWriter) Note() string {
	if n.late == 0 && n.gaps == 0 {
		return ""
	}
	return fmt.Sprintf("the vector does not show that %d samples were late (longer than the others) and that there were %d gaps", n.late, n.gaps)
}
