package tracefile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// runSlack is how many more values than the page a run of bit-packed values may have: they come in
// eights, and some writers pad further.
const runSlack = 1024

// plainDictionary is the name of format.RLEDictionary in older files.
const plainDictionary format.Encoding = 2

var (
	errCount = errors.New("a page has another number of values than its header says")
	errSize  = errors.New("a page has another size than its header says")
)

// checkPage checks the content of a page and returns the number of its values, 0 for a dictionary.
func (g *parquetGuard) checkPage(c *chunk, h *format.PageHeader, b []byte) (n int64, err error) {
	size := int(h.UncompressedPageSize)
	switch v1, v2 := h.DataPageHeader, h.DataPageHeaderV2; {
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		if b, err = g.decompress(c.meta.Codec, b, size); err != nil {
			return 0, err
		}
		return 0, checkDictionary(c.kind, int64(h.DictionaryPageHeader.V.NumValues), b)
	case h.Type == format.DataPage && v1.Valid:
		n := int64(v1.V.NumValues)
		b, err := g.decompress(c.meta.Codec, b, size)
		if err == nil && c.optional {
			b, err = checkLevels(b, n)
		}
		if err != nil {
			return 0, err
		}
		return n, c.checkValues(v1.V.Encoding, n, b)
	case h.Type == format.DataPageV2 && v2.Valid:
		return g.checkPageV2(c, &v2.V, b, size)
	}
	return 0, fmt.Errorf("a page has type %v", h.Type)
}

func (g *parquetGuard) checkPageV2(c *chunk, h *format.DataPageHeaderV2, b []byte, size int) (int64, error) {
	n, levels := int64(h.NumValues), int(h.DefinitionLevelsByteLength)
	if levels < 0 || levels > min(len(b), size) || h.RepetitionLevelsByteLength != 0 || h.NumNulls < 0 || int64(h.NumNulls) > n {
		return 0, errCount
	}
	if err := checkRuns(b[:levels], 1, n); err != nil {
		return 0, err
	}
	codec := c.meta.Codec
	if h.IsCompressed.Valid && !h.IsCompressed.V {
		codec = format.Uncompressed
	}
	b, err := g.decompress(codec, b[levels:], size-levels)
	if err != nil {
		return 0, err
	}
	return n, c.checkValues(h.Encoding, n, b)
}

// decompress decompresses a page to the size in its header. More is an error.
func (g *parquetGuard) decompress(codec format.CompressionCodec, b []byte, size int) (_ []byte, err error) {
	switch codec {
	case format.Uncompressed:
	case format.Snappy:
		if n, err := snappy.DecodedLen(b); err != nil || n != size {
			return nil, errors.Join(errSize, err)
		}
		b, err = snappy.Decode(nil, b)
	case format.Zstd:
		if g.zstd == nil {
			if g.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxParquetPage)); err != nil {
				return nil, err
			}
		}
		b, err = g.zstd.DecodeAll(b, make([]byte, 0, size))
	case format.Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			b, err = io.ReadAll(io.LimitReader(r, int64(size)+1))
		}
	case format.Brotli:
		if err = g.brotli.Reset(bytes.NewReader(b)); err == nil {
			b, err = io.ReadAll(io.LimitReader(&g.brotli, int64(size)+1))
		}
	case format.Lz4Raw:
		content := make([]byte, size)
		var n int
		n, err = lz4.UncompressBlock(b, content)
		b = content[:max(n, 0)]
	default:
		return nil, fmt.Errorf("it is compressed with %v: write it with zstd, snappy, gzip, lz4_raw, brotli or without compression", codec)
	}
	if err == nil && len(b) != size {
		err = errSize
	}
	return b, err
}

// checkDictionary checks a dictionary of n plain values. Texts are limited because each row may
// refer to the same one.
func checkDictionary(kind parquet.Kind, n int64, b []byte) error {
	if n < 0 || 4*n > int64(len(b)) {
		return errCount
	}
	if kind != parquet.ByteArray {
		return nil
	}
	_, ends, err := parquet.Plain.DecodeByteArray(nil, b, nil)
	for i := 1; i < len(ends); i++ {
		if ends[i]-ends[i-1] > maxText {
			return fmt.Errorf("a text has more than %d bytes", maxText)
		}
	}
	return err
}

// checkLevels checks the definition levels at the beginning of a page of version 1, which mark
// nulls, and returns the values after them.
func checkLevels(b []byte, n int64) ([]byte, error) {
	if len(b) < 4 {
		return nil, errCount
	}
	length := int64(binary.LittleEndian.Uint32(b))
	if b = b[4:]; length > int64(len(b)) {
		return nil, errCount
	}
	return b[length:], checkRuns(b[:length], 1, n)
}

// booleanPage has the values of a page of truth values that are not null. bits is nil if the page
// is not run-length encoded. The library (parquet-go 0.32) decodes such pages wrongly: it takes the
// lengths of runs for multiples of 8, and a run of 1 for a byte of 1. Arrow writes them in pages of
// version 2.
type booleanPage struct{ bits []bool }

// checkValues checks the counts in the encoded values of a page with n values, and decodes truth
// values.
func (c *chunk) checkValues(encoding format.Encoding, n int64, b []byte) error {
	if c.kind == parquet.Boolean && n > 0 {
		c.booleans = append(c.booleans, booleanPage{})
	}
	switch encoding {
	case format.Plain, format.ByteStreamSplit: // these need no more memory than their length
		return nil
	case format.RLEDictionary, plainDictionary:
		if len(b) == 0 || b[0] > 32 {
			return errCount
		}
		return checkRuns(b[1:], uint64(b[0]), n)
	case format.RLE:
		if c.kind != parquet.Boolean || len(b) < 4 {
			return errCount
		}
		err := checkRuns(b[4:], 1, n)
		if err == nil && n > 0 {
			c.booleans[len(c.booleans)-1].bits = decodeBits(b[4:])
		}
		return err
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		return checkDelta(b, n)
	}
	return fmt.Errorf("values are encoded as %v: use PLAIN, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY or a dictionary", encoding)
}

// checkRuns adds up the lengths of runs, which repeat a value or are bit-packed (Encodings.md of
// Apache Parquet, "Run Length Encoding / Bit-Packing Hybrid").
func checkRuns(b []byte, bits uint64, n int64) error {
	total, maxTotal := uint64(0), uint64(n)+runSlack
	for len(b) > 0 {
		head, size := binary.Uvarint(b)
		if size <= 0 {
			return errCount
		}
		b = b[size:]
		count := head >> 1
		if count == 0 {
			continue
		}
		if count > maxTotal {
			return errCount
		}
		length := (bits + 7) / 8
		if head&1 == 1 { // bit-packed, in groups of eight
			length = count * bits
			count *= 8
		}
		if total += count; total > maxTotal || length > uint64(len(b)) {
			return errCount
		}
		b = b[length:]
	}
	return nil
}

// decodeBits decodes runs of bits that checkRuns has checked.
func decodeBits(b []byte) (bits []bool) {
	for len(b) > 0 {
		head, size := binary.Uvarint(b)
		b = b[size:]
		count := int(head >> 1)
		switch {
		case count == 0:
		case head&1 == 0:
			bits = append(bits, slices.Repeat([]bool{b[0]&1 == 1}, count)...)
			b = b[1:]
		default: // groups of eight
			for i := range 8 * count {
				bits = append(bits, b[i/8]>>(i%8)&1 == 1)
			}
			b = b[count:]
		}
	}
	return bits
}

// checkDelta checks the number of values in a delta encoding, which follows the sizes of blocks
// ("Delta Encoding").
func checkDelta(b []byte, n int64) error {
	var count uint64
	for range 3 { // values in a block, parts of a block, values
		var size int
		if count, size = binary.Uvarint(b); size <= 0 {
			return errCount
		}
		b = b[size:]
	}
	if count > uint64(n) {
		return errCount
	}
	return nil
}
