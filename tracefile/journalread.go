package tracefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// journalReader reads the samples of a journal up to the first block that is not whole.
type journalReader struct {
	header Header
	f      *os.File
	in     *bufio.Reader
	block  []byte
	d      decoder
	whole  int64 // bytes of the blocks read, with the magic number
	lost   int64 // bytes after the last whole block, once that was read
}

func newJournalReader(f *os.File) (*journalReader, error) {
	j := &journalReader{f: f, in: bufio.NewReaderSize(f, 64<<10)}
	if _, err := j.in.Discard(len(journalMagic)); err != nil {
		return nil, ErrEmpty
	}
	j.whole = int64(len(journalMagic))
	switch err := j.read(); {
	case errors.Is(err, io.EOF):
		return nil, ErrEmpty
	case err != nil:
		return nil, err
	}
	var err error
	j.header, err = j.d.header()
	return j, err
}

// read reads the next block; io.EOF when no whole one follows.
func (j *journalReader) read() error {
	content, err := readBlock(j.in, j.block)
	if errors.Is(err, errTorn) {
		info, err := j.f.Stat()
		if err != nil {
			return err
		}
		j.lost = info.Size() - j.whole
		return io.EOF
	}
	if err != nil {
		return err
	}
	j.block = content
	j.whole += blockHead + int64(len(content))
	j.d.begin(content)
	return nil
}

func (j *journalReader) Header() Header { return j.header }

func (j *journalReader) Next() (*Row, error) {
	for {
		r, err := j.d.next()
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("the journal is damaged, in the block before byte %d: %w", j.whole, err)
		}
		if err := j.read(); err != nil {
			return nil, err
		}
	}
}

// Lost returns how many bytes at the end are no whole block.
func (j *journalReader) Lost() int64 { return j.lost }
