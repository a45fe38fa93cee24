package tracefile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// When a journal writes blocks and syncs, by the time of the samples; see the package comment.
const (
	blockSize  = 64 << 10
	blockEvery = time.Second
	syncEvery  = 5 * time.Second
)

// journalWriter appends the samples of a recording to a file.
//
// Invariant: the first size bytes of the file are complete blocks. Nothing follows them, unless err
// is set and the file could not be truncated.
type journalWriter struct {
	f        journalFile
	size     int64
	block    []byte // the next block: space for its head, then content
	groups   map[string]*journalGroup
	texts    map[string]uint64
	previous time.Duration // end of the previous entry in the block
	newest   time.Duration // latest end of an entry
	written  time.Duration // newest when the last block was written
	synced   time.Duration // newest when the last sync began
	syncing  chan error    // receives the result of the current sync; nil if there is none
	rows     int64         // in the blocks of the file
	pending  int64         // rows in block
	err      error         // the first failure
}

// journalFile is a file, or a stream.
type journalFile interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

// stream is a journalFile of which no byte can be taken back. Its receiver drops what is torn.
type stream struct{ io.Writer }

func (stream) Truncate(int64) error { return nil }
func (stream) Sync() error          { return nil }
func (stream) Close() error         { return nil }

type journalGroup struct {
	number int
	limits bandwidth.Limits
}

// createJournal creates a journal, which must not exist yet.
func createJournal(name string, h Header) (*journalWriter, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, &JournalExistsError{name}
	}
	if err != nil {
		return nil, fmt.Errorf("create the journal of the recording: %w", err)
	}
	j, err := newJournal(f, h)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return j, nil
}

func newJournal(f journalFile, h Header) (*journalWriter, error) {
	j := &journalWriter{f: f, groups: map[string]*journalGroup{}, texts: map[string]uint64{"": 0}}
	j.block = appendHeader(append(make([]byte, 0, blockSize+4096), make([]byte, blockHead)...), h)
	seal(j.block)
	err := j.write(append([]byte(journalMagic), j.block...))
	j.block = j.block[:blockHead]
	return j, err
}

// Write appends a sample. After an error the journal accepts no more.
func (j *journalWriter) Write(r *Row) error {
	if j.err != nil {
		return j.err
	}
	if err := errors.Join(r.check(), tooLong(r.Group, r.Name)); err != nil {
		return fmt.Errorf("group %s: a sample cannot be recorded: %w", r.Group, err)
	}
	g := j.group(r.Group, r.Name)
	j.block = appendSample(j.block, g.number, r, j.previous, &g.limits)
	j.pending++
	return j.added(r.At)
}

// WriteSpan appends a span. After an error the journal accepts no more.
func (j *journalWriter) WriteSpan(s *trace.Span) error {
	if j.err != nil {
		return j.err
	}
	if err := errors.Join(s.Validate(), tooLong(s.Group, s.Name, s.Process, s.Behind)); err != nil {
		return fmt.Errorf("group %s: a span cannot be recorded: %w", s.Group, err)
	}
	number := j.group(s.Group, s.Name).number
	process, behind := j.text(s.Process), j.text(s.Behind)
	j.block = appendSpan(j.block, number, s, j.previous, process, behind)
	return j.added(s.To)
}

// group returns a group, and appends it when it is seen for the first time.
func (j *journalWriter) group(path, name string) *journalGroup {
	g, ok := j.groups[path]
	if !ok {
		g = &journalGroup{number: len(j.groups)}
		j.groups[path] = g
		j.block = appendGroup(j.block, path, name)
	}
	return g
}

// maxTexts bounds the memory for the names of processes that come and go.
const maxTexts = 50_000

// text returns the number of a text, and appends it when it is seen for the first time. Of too many
// it returns that of another one, which says so.
func (j *journalWriter) text(text string) uint64 {
	n, ok := j.texts[text]
	if !ok && len(j.texts) >= maxTexts-1 {
		text = "one of too many"
		n, ok = j.texts[text]
	}
	if !ok {
		n = uint64(len(j.texts))
		j.texts[text] = n
		j.block = appendText(append(j.block, kindText), text)
	}
	return n
}

// added writes the block if that is due, after an entry with the given end.
func (j *journalWriter) added(end time.Duration) error {
	j.previous, j.newest = end, max(j.newest, end)
	if len(j.block) < blockSize && j.newest < j.written+blockEvery {
		return nil
	}
	return j.flush()
}

// flush writes the block, and begins to sync if that is due.
func (j *journalWriter) flush() error {
	if j.err != nil || len(j.block) == blockHead {
		return j.err
	}
	seal(j.block)
	if err := j.write(j.block); err != nil {
		return err
	}
	j.rows += j.pending
	j.block, j.pending, j.previous, j.written = j.block[:blockHead], 0, 0, j.newest
	if j.newest < j.synced+syncEvery {
		return nil
	}
	return j.beginSync()
}

// beginSync syncs in the background, unless the previous sync is still running.
func (j *journalWriter) beginSync() error {
	select {
	case err := <-j.syncing: // never, if it is nil
		j.syncing = nil
		if err != nil {
			return j.fail(err)
		}
	default:
	}
	if j.syncing != nil {
		return nil
	}
	j.synced = j.newest
	done := make(chan error, 1)
	go func() { done <- j.f.Sync() }()
	j.syncing = done
	return nil
}

// write appends bytes. If that fails, it truncates the file to what it was.
func (j *journalWriter) write(b []byte) error {
	if _, err := j.f.Write(b); err != nil {
		return errors.Join(j.fail(err), j.f.Truncate(j.size))
	}
	j.size += int64(len(b))
	return nil
}

func (j *journalWriter) fail(err error) error {
	j.err = fmt.Errorf("write the journal of the recording: %w", err)
	return j.err
}

// Close writes pending samples and closes the file. It does not return errors that Write has
// already returned.
func (j *journalWriter) Close() error {
	var err error
	if j.err == nil {
		err = j.flush()
	}
	if j.syncing != nil {
		err = errors.Join(err, <-j.syncing)
	}
	return errors.Join(err, j.f.Close())
}

// journalReader reads the samples of a journal up to the first incomplete block.
type journalReader struct {
	header Header
	f      *os.File // nil for a stream
	in     *bufio.Reader
	block  []byte
	d      decoder
	whole  int64 // bytes read: the magic number and complete blocks
	lost   int64 // bytes after the last complete block, once that was read
}

func newJournalReader(f *os.File, in *bufio.Reader) (*journalReader, error) {
	j := &journalReader{f: f, in: in}
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

// read reads the next block, or returns io.EOF if no complete one follows.
func (j *journalReader) read() error {
	content, err := readBlock(j.in, j.block)
	if errors.Is(err, errTorn) && j.f == nil {
		return io.EOF
	}
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

func (j *journalReader) Resolution() time.Duration { return 0 } // the times are exact

func (j *journalReader) Next() (*Row, error) {
	for {
		if r, _, err := j.next(); r != nil || err != nil {
			return r, err
		}
	}
}

// NextSpan returns the next span, and skips samples.
func (j *journalReader) NextSpan() (*trace.Span, error) {
	for {
		if _, s, err := j.next(); s != nil || err != nil {
			return s, err
		}
	}
}

// next returns the next sample or span.
func (j *journalReader) next() (*Row, *trace.Span, error) {
	for {
		r, s, err := j.d.next()
		if err == nil {
			return r, s, nil
		}
		if !errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("the journal is damaged in the block before byte %d: %w", j.whole, err)
		}
		if err := j.read(); err != nil {
			return nil, nil, err
		}
	}
}
