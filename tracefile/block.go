package tracefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
)

// The format of a journal; see the package comment. Sizes are in bytes.
const (
	journalMagic = "pinfold1"
	blockHead    = 8       // length and checksum
	maxBlock     = 1 << 20 // content
	maxText      = 16 << 10
)

// The content of a block is a sequence of entries. An entry is its kind, one byte, and
//
//	header  start (Unix time in nanoseconds), nominal interval
//	group   path, name; groups are numbered from 0 in order of appearance
//	sample  number of its group; flags; end, relative to the end of the previous entry in the
//	        block; interval; usage; periods, throttled periods, bursts; throttled time, burst time;
//	        with flagLimits quota, period and burst, which otherwise are those of the group's
//	        previous sample; with flagWaited the time for which threads waited; with flagUnknown the
//	        figures that are unknown
//	text    a text; texts are numbered from 1 in order of appearance, and 0 is ""
//	span    number of its group; state; end, relative to the end of the previous entry in the block;
//	        length; thread, CPU; texts of Process and Behind
//	edge    number of its group; time, relative to the end of the previous entry in the block; CPU
//	        time left before and after; periods, throttled periods, throttled time
//
// Numbers are varints, zigzag-encoded except for numbers of groups and texts. A text follows its
// length.
const (
	kindHeader byte = iota + 1
	kindGroup
	kindSample
	kindText
	kindSpan
	kindEdge
)

const (
	flagLate byte = 1 << iota
	flagLimits
	flagWaited
	flagUnknown
	flagRaised
	flagTraceEnded
)

func appendHeader(b []byte, h Header) []byte {
	b = append(b, kindHeader)
	b = binary.AppendVarint(b, h.Start.UnixNano())
	return binary.AppendVarint(b, int64(h.Interval))
}

func appendGroup(b []byte, group, name string) []byte {
	b = append(b, kindGroup)
	return appendText(appendText(b, group), name)
}

func appendText(b []byte, text string) []byte {
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// appendSpan appends a span of a group, or an edge of its quota. process and behind are the numbers
// of its texts.
func appendSpan(b []byte, number int, s *trace.Span, previous time.Duration, process, behind uint64) []byte {
	kind := kindSpan
	if s.Quota != nil {
		kind = kindEdge
	}
	b = binary.AppendUvarint(append(b, kind), uint64(number))
	if q := s.Quota; q != nil {
		return appendNumbers(b, int64(s.To-previous), int64(q.Before), int64(q.Left), int64(q.Periods), int64(q.Throttled), int64(q.ThrottledTime))
	}
	b = appendNumbers(append(b, byte(s.State)), int64(s.To-previous), int64(s.To-s.From), int64(s.Thread), int64(s.CPU))
	return binary.AppendUvarint(binary.AppendUvarint(b, process), behind)
}

func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.AppendVarint(b, n)
	}
	return b
}

// appendSample appends a sample of a group. previous is the end of the previous entry in the block.
// limits are those of the group's previous sample, and are updated.
func appendSample(b []byte, number int, r *Row, previous time.Duration, limits *bandwidth.Limits) []byte {
	var flags byte
	set := func(flag byte, is bool) {
		if is {
			flags |= flag
		}
	}
	set(flagLate, r.Late)
	set(flagLimits, r.Limits != *limits)
	set(flagWaited, r.Waited != 0)
	set(flagUnknown, r.Unknown != 0)
	set(flagRaised, r.Raised)
	set(flagTraceEnded, r.TraceEnded)
	b = append(b, kindSample)
	b = binary.AppendUvarint(b, uint64(number))
	b = append(b, flags)
	b = appendNumbers(b, int64(r.At-previous), int64(r.Interval), int64(r.Usage), int64(r.Periods), int64(r.Throttled), int64(r.Bursts),
		int64(r.ThrottledTime), int64(r.BurstTime))
	if flags&flagLimits != 0 {
		*limits = r.Limits
		b = appendNumbers(b, int64(r.Limits.Quota), int64(r.Limits.Period), int64(r.Limits.Burst))
	}
	if flags&flagWaited != 0 {
		b = appendNumbers(b, int64(r.Waited))
	}
	if flags&flagUnknown != 0 {
		b = append(b, byte(r.Unknown))
	}
	return b
}

// seal sets the length and the checksum of a block.
func seal(block []byte) {
	content := block[blockHead:]
	binary.LittleEndian.PutUint32(block, uint32(len(content)))
	binary.LittleEndian.PutUint32(block[4:], checksum(content))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

var errTorn = errors.New("a block is incomplete or damaged")

// readBlock reads the content of the next block into b. It returns io.EOF at the end of the file,
// and errTorn if the rest is not a complete block.
func readBlock(in io.Reader, b []byte) ([]byte, error) {
	var head [blockHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errTorn
		}
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size == 0 || size > maxBlock {
		return nil, errTorn
	}
	b = slices.Grow(b[:0], int(size))[:size]
	if _, err := io.ReadFull(in, b); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errTorn
		}
		return nil, err
	}
	if checksum(b) != binary.LittleEndian.Uint32(head[4:]) {
		return nil, errTorn
	}
	return b, nil
}

// decoder decodes the content of blocks. It keeps the groups and their limits, and the texts.
type decoder struct {
	groups   []decodedGroup
	texts    []string
	block    bytes.Reader
	previous time.Duration // end of the previous entry in the block
	bad      bool          // whether an entry was incomplete
}

type decodedGroup struct {
	group, name string
	limits      bandwidth.Limits
}

func (d *decoder) begin(content []byte) {
	d.block.Reset(content)
	d.previous, d.bad = 0, false
}

func (d *decoder) varint() int64 {
	n, err := binary.ReadVarint(&d.block)
	d.bad = d.bad || err != nil
	return n
}

func (d *decoder) byte() byte {
	b, err := d.block.ReadByte()
	d.bad = d.bad || err != nil
	return b
}

func (d *decoder) text() string {
	n, err := binary.ReadUvarint(&d.block)
	if d.bad = d.bad || err != nil || n > maxText || n > uint64(d.block.Len()); d.bad {
		return ""
	}
	b := make([]byte, n)
	_, _ = d.block.Read(b)
	return string(b)
}

func (d *decoder) count() uint32 {
	n := d.varint()
	d.bad = d.bad || n < 0 || n != int64(uint32(n))
	return uint32(n)
}

// header decodes the content of the first block.
func (d *decoder) header() (Header, error) {
	kind, start, interval := d.byte(), d.varint(), d.varint()
	if d.bad || kind != kindHeader || interval <= 0 || d.block.Len() > 0 {
		return Header{}, errors.New("the journal does not begin with a header")
	}
	return Header{Start: time.Unix(0, start).UTC(), Interval: time.Duration(interval)}, nil
}

// next returns the next sample or span of the block, or io.EOF at its end.
func (d *decoder) next() (*Row, *trace.Span, error) {
	for d.block.Len() > 0 {
		switch kind := d.byte(); kind {
		case kindGroup:
			g := decodedGroup{group: d.text(), name: d.text()}
			if d.bad {
				return nil, nil, errors.New("a group is incomplete")
			}
			d.groups = append(d.groups, g)
		case kindText:
			d.texts = append(d.texts, d.text())
			if d.bad {
				return nil, nil, errors.New("a text is incomplete")
			}
		case kindSample:
			r, err := d.sample()
			return r, nil, err
		case kindSpan, kindEdge:
			s, err := d.span(kind)
			return nil, s, err
		default:
			return nil, nil, fmt.Errorf("unknown kind of entry %d: was it written by a newer pinfold?", kind)
		}
	}
	return nil, nil, io.EOF
}

// number returns a number below n, such as that of a group.
func (d *decoder) number(n int) int {
	i, err := binary.ReadUvarint(&d.block)
	if d.bad = d.bad || err != nil || i >= uint64(n); d.bad {
		return 0
	}
	return int(i)
}

func (d *decoder) group() *decodedGroup {
	i := d.number(len(d.groups))
	if d.bad {
		return nil
	}
	return &d.groups[i]
}

func (d *decoder) numberedText() string {
	if i := d.number(len(d.texts) + 1); i > 0 {
		return d.texts[i-1]
	}
	return ""
}

func (d *decoder) span(kind byte) (*trace.Span, error) {
	g := d.group()
	if d.bad {
		return nil, errors.New("a span has an unknown group")
	}
	s := &trace.Span{Group: g.group, Name: g.name}
	if kind == kindSpan {
		s.State = blame.State(d.byte())
	}
	d.previous += time.Duration(d.varint())
	s.From, s.To = d.previous, d.previous
	if kind == kindEdge {
		s.Quota = &blame.Quota{Before: time.Duration(d.varint()), Left: time.Duration(d.varint()), Periods: d.count(), Throttled: d.count(),
			ThrottledTime: time.Duration(d.varint())}
	} else {
		s.From -= time.Duration(d.varint())
		s.Thread, s.CPU = int(d.varint()), int(d.varint())
		s.Process, s.Behind = d.numberedText(), d.numberedText()
	}
	if d.bad {
		return nil, errors.New("a span is incomplete")
	}
	return s, s.Validate()
}

func (d *decoder) sample() (*Row, error) {
	g := d.group()
	if d.bad {
		return nil, errors.New("a sample has an unknown group")
	}
	flags := d.byte()
	d.previous += time.Duration(d.varint())
	r := &Row{Group: g.group, Name: g.name}
	r.At = d.previous
	r.Late, r.Raised, r.TraceEnded = flags&flagLate != 0, flags&flagRaised != 0, flags&flagTraceEnded != 0
	r.Interval, r.Usage = time.Duration(d.varint()), time.Duration(d.varint())
	r.Periods, r.Throttled, r.Bursts = d.count(), d.count(), d.count()
	r.ThrottledTime, r.BurstTime = time.Duration(d.varint()), time.Duration(d.varint())
	if flags&flagLimits != 0 {
		g.limits.Quota, g.limits.Period = time.Duration(d.varint()), time.Duration(d.varint())
		g.limits.Burst = time.Duration(d.varint())
	}
	r.Limits = g.limits
	if flags&flagWaited != 0 {
		r.Waited = time.Duration(d.varint())
	}
	if flags&flagUnknown != 0 {
		r.Unknown = trace.Figures(d.byte())
	}
	if d.bad {
		return nil, errors.New("a sample is incomplete")
	}
	return r, r.check()
}

// tooLong returns an error if a text is too long for a journal.
func tooLong(texts ...string) error {
	for _, text := range texts {
		if len(text) > maxText {
			return fmt.Errorf("%s... has more than %d bytes", strings.ToValidUTF8(text[:40], ""), maxText)
		}
	}
	return nil
}
