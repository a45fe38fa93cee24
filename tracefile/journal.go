package tracefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// When a journal writes its blocks and syncs; see the package comment. The clock is that
// of the samples.
const (
	blockSize  = 64 << 10
	blockEvery = time.Second
	syncEvery  = 5 * time.Second
)

// journalWriter appends the samples of a recording to a file.
//
// Invariant: the file's first size bytes are whole blocks, and nothing follows them unless
// err is set and the file could not be cut back.
type journalWriter struct {
	f       *os.File
	size    int64
	block   []byte // the next block: room for its head, then content
	groups  map[string]*journalGroup
	before  time.Duration // end of the last sample in the block
	newest  time.Duration // the latest end of a sample
	written time.Duration // newest when the last block was written
	synced  time.Duration // newest when the last sync began
	syncing chan error    // of the sync under way; nil when there is none
	rows    int64         // in whole blocks of the file
	pending int64         // in block
	err     error         // the first failure
}

type journalGroup struct {
	number int
	limits bandwidth.Limits
}

// createJournal makes a journal, which must not exist yet.
func createJournal(name string, h Header) (*journalWriter, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, &JournalExistsError{name}
	}
	if err != nil {
		return nil, fmt.Errorf("make the journal of the recording: %w", err)
	}
	j := &journalWriter{f: f, groups: map[string]*journalGroup{}}
	j.block = appendHeader(append(make([]byte, 0, blockSize+4096), make([]byte, blockHead)...), h)
	seal(j.block)
	if err := j.write(append([]byte(journalMagic), j.block...)); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	j.block = j.block[:blockHead]
	return j, nil
}

// Write appends a sample. After an error the journal takes no more.
func (j *journalWriter) Write(r *Row) error {
	if j.err != nil {
		return j.err
	}
	if err := errors.Join(r.check(), tooLong(r.Group, r.Name)); err != nil {
		return fmt.Errorf("group %s: a sample cannot be recorded: %w", r.Group, err)
	}
	g, ok := j.groups[r.Group]
	if !ok {
		g = &journalGroup{number: len(j.groups)}
		j.groups[r.Group] = g
		j.block = appendGroup(j.block, r.Group, r.Name)
	}
	j.block = appendSample(j.block, g.number, r, j.before, &g.limits)
	j.before, j.newest = r.At, max(j.newest, r.At)
	j.pending++
	if len(j.block) < blockSize && j.newest < j.written+blockEvery {
		return nil
	}
	return j.flush()
}

// flush writes the block, and begins to sync when it is time.
func (j *journalWriter) flush() error {
	if j.err != nil || j.pending == 0 {
		return j.err
	}
	seal(j.block)
	if err := j.write(j.block); err != nil {
		return err
	}
	j.rows += j.pending
	j.block, j.pending, j.before, j.written = j.block[:blockHead], 0, 0, j.newest
	if j.newest < j.synced+syncEvery {
		return nil
	}
	return j.beginSync()
}

// beginSync syncs in the background, unless that is still going on.
func (j *journalWriter) beginSync() error {
	select {
	case err := <-j.syncing: // never, when it is nil
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

// write appends bytes; what was written of them in part is taken back.
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

// Close writes what is pending and closes the file. The error is that of this, not one
// that Write returned before.
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
