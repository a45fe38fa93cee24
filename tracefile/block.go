package tracefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// The parts of a journal; see the package comment.
const (
	journalMagic = "pinfold1"
	blockHead    = 8       // length and checksum
	maxBlock     = 1 << 20 // content
	maxText      = 16 << 10
)

// What a block's content consists of: a kind, and then
//
//	header  start (Unix time in nanoseconds), nominal interval
//	group   its path, its name; groups are numbered as they come
//	sample  number of its group; flags; end, less that of the sample before in the block;
//	        interval; usage; periods, throttled periods, bursts; throttled time, burst
//	        time; with flagLimits quota, period, burst, otherwise those of the group's
//	        sample before
//
// Numbers are varints, those that may be negative zigzag; texts have their length before
// them.
const (
	kindHeader byte = iota + 1
	kindGroup
	kindSample
)

const (
	flagLate byte = 1 << iota
	flagLimits
)

func appendHeader(b []byte, h Header) []byte {
	b = append(b, kindHeader)
	b = binary.AppendVarint(b, h.Start.UnixNano())
	return binary.AppendVarint(b, int64(h.Interval))
}

func appendGroup(b []byte, group, name string) []byte {
	b = append(b, kindGroup)
	for _, text := range []string{group, name} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return b
}

// appendSample appends a sample of a group. Before is the end of the sample before in the
// block; limits are those of the group's sample before, and are changed to those of this.
func appendSample(b []byte, number int, r *Row, before time.Duration, limits *bandwidth.Limits) []byte {
	var flags byte
	if r.Late {
		flags |= flagLate
	}
	if r.Limits != *limits {
		flags |= flagLimits
	}
	b = append(b, kindSample)
	b = binary.AppendUvarint(b, uint64(number))
	b = append(b, flags)
	b = binary.AppendVarint(b, int64(r.At-before))
	for _, n := range []int64{
		int64(r.Interval), int64(r.Usage), int64(r.Periods), int64(r.Throttled), int64(r.Bursts),
		int64(r.ThrottledTime), int64(r.BurstTime),
	} {
		b = binary.AppendVarint(b, n)
	}
	if flags&flagLimits != 0 {
		*limits = r.Limits
		for _, d := range []time.Duration{r.Limits.Quota, r.Limits.Period, r.Limits.Burst} {
			b = binary.AppendVarint(b, int64(d))
		}
	}
	return b
}

// seal writes length and checksum into the first bytes of a block.
func seal(block []byte) {
	content := block[blockHead:]
	binary.LittleEndian.PutUint32(block, uint32(len(content)))
	binary.LittleEndian.PutUint32(block[4:], checksum(content))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// errTorn says that a block is not whole.
var errTorn = errors.New("a block is not whole")

// readBlock reads the content of the next block into b; io.EOF at the end, errTorn for
// anything that is not a whole block.
func readBlock(in io.Reader, b []byte) ([]byte, error) {
	var head [blockHead]byte
	switch _, err := io.ReadFull(in, head[:]); {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errTorn
	case err != nil:
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size == 0 || size > maxBlock {
		return nil, errTorn
	}
	if int(size) > cap(b) {
		b = make([]byte, size)
	}
	b = b[:size]
	switch _, err := io.ReadFull(in, b); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errTorn
	case err != nil:
		return nil, err
	}
	if checksum(b) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return b, nil
}

// decoder reads the content of blocks. It remembers the groups and their limits.
type decoder struct {
	groups []decodedGroup
	b      []byte        // what is left of the block
	before time.Duration // end of the last sample in the block
	bad    bool
}

type decodedGroup struct {
	group, name string
	limits      bandwidth.Limits
}

func (d *decoder) begin(content []byte) { d.b, d.before, d.bad = content, 0, false }

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.b)
	if size <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[size:]
	return n
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	b := d.b[0]
	d.b = d.b[1:]
	return b
}

func (d *decoder) text() string {
	n, size := binary.Uvarint(d.b)
	if size <= 0 || n > maxText || n > uint64(len(d.b)-size) {
		d.bad, d.b = true, nil
		return ""
	}
	text := string(d.b[size : size+int(n)])
	d.b = d.b[size+int(n):]
	return text
}

func (d *decoder) count() uint32 {
	n := d.varint()
	d.bad = d.bad || n < 0 || n != int64(uint32(n))
	return uint32(n)
}

// header reads the content of the first block.
func (d *decoder) header() (Header, error) {
	kind, start, interval := d.byte(), d.varint(), d.varint()
	if d.bad || kind != kindHeader || interval <= 0 || len(d.b) > 0 {
		return Header{}, errors.New("the journal does not begin with a header")
	}
	return Header{Start: time.Unix(0, start).UTC(), Interval: time.Duration(interval)}, nil
}

// next reads the next sample of the block; io.EOF at its end.
func (d *decoder) next() (*Row, error) {
	for len(d.b) > 0 {
		switch kind := d.byte(); kind {
		case kindGroup:
			g := decodedGroup{group: d.text(), name: d.text()}
			if d.bad {
				return nil, errors.New("a group is not whole")
			}
			d.groups = append(d.groups, g)
		case kindSample:
			return d.sample()
		default:
			return nil, fmt.Errorf("kind %d is not known: was it written by a newer pinfold?", kind)
		}
	}
	return nil, io.EOF
}

func (d *decoder) sample() (*Row, error) {
	number, size := binary.Uvarint(d.b)
	if size <= 0 || number >= uint64(len(d.groups)) {
		return nil, errors.New("a sample is of no known group")
	}
	d.b = d.b[size:]
	g := &d.groups[number]
	flags := d.byte()
	d.before += time.Duration(d.varint())
	r := &Row{Group: g.group, Name: g.name}
	r.At, r.Late = d.before, flags&flagLate != 0
	r.Interval, r.Usage = time.Duration(d.varint()), time.Duration(d.varint())
	r.Periods, r.Throttled, r.Bursts = d.count(), d.count(), d.count()
	r.ThrottledTime, r.BurstTime = time.Duration(d.varint()), time.Duration(d.varint())
	if flags&flagLimits != 0 {
		g.limits.Quota, g.limits.Period = time.Duration(d.varint()), time.Duration(d.varint())
		g.limits.Burst = time.Duration(d.varint())
	}
	r.Limits = g.limits
	if d.bad {
		return nil, errors.New("a sample is not whole")
	}
	return r, r.check()
}

// tooLong finds texts that a journal cannot hold.
func tooLong(texts ...string) error {
	for _, text := range texts {
		if len(text) > maxText {
			return fmt.Errorf("%s... has more than %d bytes", strings.ToValidUTF8(text[:40], ""), maxText)
		}
	}
	return nil
}
