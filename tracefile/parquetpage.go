package tracefile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// runSlack is how many values more than there are a run of bit-packed values may
// have: they come in eights, and some writers fill up more.
const runSlack = 1024

// plainDictionary is what older writers call format.RLEDictionary.
const plainDictionary format.Encoding = 2

var (
	errRuns     = errors.New("a page has another number of values than its header says")
	errUnpacked = errors.New("a page has another size than its header says")
)

// checkPage looks at what a page holds, and returns how many values, of a page of data.
func (g *parquetGuard) checkPage(c *chunk, h *format.PageHeader, at int64) (int64, error) {
	b := make([]byte, h.CompressedPageSize)
	if _, err := g.in.ReadAt(b, at); err != nil {
		return 0, err
	}
	size := int(h.UncompressedPageSize)
	switch v1, v2 := h.DataPageHeader, h.DataPageHeaderV2; {
	case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
		b, err := g.decompress(c.meta.Codec, b, size)
		if err != nil {
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
		return n, checkValues(v1.V.Encoding, c.kind, n, b)
	case h.Type == format.DataPageV2 && v2.Valid:
		return g.checkPageV2(c, &v2.V, b, size)
	}
	return 0, fmt.Errorf("a page is of type %v", h.Type)
}

func (g *parquetGuard) checkPageV2(c *chunk, h *format.DataPageHeaderV2, b []byte, size int) (int64, error) {
	n, levels := int64(h.NumValues), int(h.DefinitionLevelsByteLength)
	if levels < 0 || levels > min(len(b), size) || h.RepetitionLevelsByteLength != 0 || h.NumNulls < 0 || int64(h.NumNulls) > n {
		return 0, errRuns
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
	return n, checkValues(h.Encoding, c.kind, n, b)
}

// unpack decompresses pages.
type unpack struct{ zstd *zstd.Decoder }

// decompress decompresses a page to the size that its header says, and not to more.
func (u *unpack) decompress(codec format.CompressionCodec, b []byte, size int) (_ []byte, err error) {
	switch codec {
	case format.Uncompressed:
	case format.Snappy:
		if n, err := snappy.DecodedLen(b); err != nil || n != size {
			return nil, errors.Join(errUnpacked, err)
		}
		b, err = snappy.Decode(nil, b)
	case format.Zstd:
		if u.zstd == nil {
			if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxParquetPage)); err != nil {
				return nil, err
			}
		}
		b, err = u.zstd.DecodeAll(b, make([]byte, 0, size))
	case format.Gzip:
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			b, err = io.ReadAll(io.LimitReader(r, int64(size)+1))
		}
	default:
		return nil, fmt.Errorf("it is compressed with %v: write it with zstd, snappy, gzip or without compression", codec)
	}
	if err == nil && len(b) != size {
		err = errUnpacked
	}
	return b, err
}

// checkDictionary looks at the values that a column refers to: each text that it has may be
// there in every row.
func checkDictionary(kind parquet.Kind, n int64, b []byte) error {
	if n < 0 || 4*n > int64(len(b)) {
		return errRuns
	}
	if kind != parquet.ByteArray {
		return nil
	}
	for len(b) > 0 {
		if len(b) < 4 {
			return errRuns
		}
		length := int64(binary.LittleEndian.Uint32(b))
		if length > maxText {
			return fmt.Errorf("a text has more than %d bytes", maxText)
		}
		if length > int64(len(b)-4) {
			return errRuns
		}
		b = b[4+length:]
	}
	return nil
}

// checkLevels looks at the levels before the values of a page of version 1, which say
// which ones are null, and returns the values.
func checkLevels(b []byte, n int64) ([]byte, error) {
	if len(b) < 4 {
		return nil, errRuns
	}
	length := int64(binary.LittleEndian.Uint32(b))
	if b = b[4:]; length > int64(len(b)) {
		return nil, errRuns
	}
	return b[length:], checkRuns(b[:length], 1, n)
}

// checkValues looks at the counts in encoded values.
func checkValues(encoding format.Encoding, kind parquet.Kind, n int64, b []byte) error {
	switch encoding {
	case format.Plain: // takes no more memory than it is long
		return nil
	case format.RLEDictionary, plainDictionary:
		if len(b) == 0 || b[0] > 32 {
			return errRuns
		}
		return checkRuns(b[1:], uint64(b[0]), n)
	case format.RLE:
		if kind != parquet.Boolean || len(b) < 4 {
			return errRuns
		}
		return checkRuns(b[4:], 1, n)
	case format.DeltaBinaryPacked, format.DeltaLengthByteArray:
		return checkDelta(b, n)
	}
	return fmt.Errorf("values are encoded as %v: let its writer use plain values or a dictionary", encoding)
}

// checkRuns counts the values of runs, which are of one value or bit-packed (Encodings.md of
// Apache Parquet, "Run Length Encoding / Bit-Packing Hybrid").
func checkRuns(b []byte, bits uint64, n int64) error {
	total, most := uint64(0), uint64(n)+runSlack
	for len(b) > 0 {
		head, size := binary.Uvarint(b)
		if size <= 0 {
			return errRuns
		}
		b = b[size:]
		count := head >> 1
		if count == 0 {
			continue
		}
		if count > most {
			return errRuns
		}
		length := (bits + 7) / 8
		if head&1 == 1 { // eights of them
			length = count * bits
			count *= 8
		}
		if total += count; total > most || length > uint64(len(b)) {
			return errRuns
		}
		b = b[length:]
	}
	return nil
}

// checkDelta looks at the head of values that are differences ("Delta Encoding").
func checkDelta(b []byte, n int64) error {
	for _, most := range []uint64{1 << 16, 1 << 16, uint64(n)} { // of a block, parts of it, of all
		value, size := binary.Uvarint(b)
		if size <= 0 || value > most {
			return errRuns
		}
		b = b[size:]
	}
	return nil
}
