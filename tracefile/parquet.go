package tracefile

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

// rowsPerGroup bounds the memory that a Parquet writer needs: about 20 MiB.
const rowsPerGroup = 1 << 17

// startKey is where a Parquet file has the start of the recording.
const startKey = "pinfold.start"

// parquetWriter gathers the rows of a row group, puts them in order and writes them.
type parquetWriter struct {
	header  Header
	w       *parquet.GenericWriter[record]
	pending []record
}

func newParquetWriter(w io.Writer, h Header) *parquetWriter {
	return &parquetWriter{header: h, w: parquet.NewGenericWriter[record](w,
		parquet.Compression(&zstd.Codec{}),
		parquet.KeyValueMetadata(startKey, h.Start.UTC().Format(time.RFC3339Nano)),
	)}
}

func (p *parquetWriter) Write(r *Row) error {
	p.pending = append(p.pending, toRecord(p.header, r))
	if len(p.pending) < rowsPerGroup {
		return nil
	}
	return p.flush()
}

// flush writes the pending rows as a row group. Rows of one group are in the order of time
// already.
func (p *parquetWriter) flush() error {
	slices.SortStableFunc(p.pending, func(a, b record) int { return strings.Compare(a.Group, b.Group) })
	if _, err := p.w.Write(p.pending); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	p.pending = p.pending[:0]
	return nil
}

func (p *parquetWriter) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	if err := p.w.Close(); err != nil {
		return fmt.Errorf("write Parquet: %w", err)
	}
	return nil
}
