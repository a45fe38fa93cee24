package tracefile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// journalOf writes rows to a new journal.
func journalOf(t interface {
	Helper()
	Fatal(...any)
}, name string, h Header, rows []*Row) {
	t.Helper()
	j := must.Get(createJournal(name, h))(t)
	for _, r := range rows {
		must.Do(t, j.Write(r))
	}
	must.Do(t, j.Close())
}

// TestJournalProperty writes random recordings and reads them back.
func TestJournalProperty(t *testing.T) {
	name := filepath.Join(t.TempDir(), "j")
	rapid.Check(t, func(t *rapid.T) {
		os.Remove(name)
		rec := sorted(drawRecording(t))
		journalOf(t, name, header(rec), inTime(rec))
		check(t, rec, name)
	})
}

// TestCutAnywhere truncates a journal at every byte. The samples of the complete blocks are read in
// order, and the lost bytes are counted. So a recorder that is killed loses at most one block. A
// stream that breaks is recorded up to there.
func TestCutAnywhere(t *testing.T) {
	rec := steady([]string{"/a", "/b"}, 25) // a block a second
	rows := inTime(rec)
	dir := t.TempDir()
	name := filepath.Join(dir, "j")
	journalOf(t, name, header(rec), rows)
	whole := must.Get(os.ReadFile(name))(t)
	ends, counts := blocks(t, whole)
	if len(ends) < 4 {
		t.Fatalf("the journal has %d blocks, want at least 4", len(ends))
	}
	cut := filepath.Join(dir, "cut")
	for n := range len(whole) + 1 {
		must.Do(t, os.WriteFile(cut, whole[:n], 0o600))
		last := 0 // whole blocks
		for last < len(ends) && ends[last] <= n {
			last++
		}
		got, lost, err := readRows(cut)
		if last == 0 {
			if !errors.Is(err, ErrEmpty) {
				t.Fatalf("cut at byte %d: %v, want %v", n, err, ErrEmpty)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at byte %d: %v", n, err)
		}
		if want := rows[:counts[last-1]]; !reflect.DeepEqual(want, got) && len(want)+len(got) > 0 {
			t.Fatalf("cut at byte %d: %s", n, cmp.Diff(want, got))
		}
		var recorded bytes.Buffer
		c, err := Replay(bytes.NewReader(whole[:n]), func(h Header) (Recorder, error) { return RecordJournal(&recorded, h) })
		if again := recorded.Bytes(); err != nil || c.Rows != int64(counts[last-1]) || len(again) > 0 && !bytes.Equal(again, whole[:ends[last-1]]) {
			t.Fatalf("a stream that breaks at byte %d: %+v, %v", n, c, err)
		}
		if want := n - ends[last-1]; lost != int64(want) {
			t.Fatalf("cut at byte %d: %d bytes lost, want %d", n, lost, want)
		}
	}
}

// blocks returns for each block of a journal where it ends and how many samples precede that.
func blocks(t *testing.T, journal []byte) (ends, counts []int) {
	in := bytes.NewReader(journal[len(journalMagic):])
	var d decoder
	count := 0
	for in.Len() > 0 {
		content := must.Get(readBlock(in, nil))(t)
		if d.begin(content); len(ends) == 0 {
			must.Get(d.header())(t)
		}
		for _, _, err := d.next(); err == nil; _, _, err = d.next() {
			count++
		}
		ends, counts = append(ends, len(journal)-in.Len()), append(counts, count)
	}
	return ends, counts
}

func readRows(name string) (rows []*Row, lost int64, err error) {
	f, err := Open(name, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	for r, err := range f.Rows() {
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, r)
	}
	return rows, f.Lost(), nil
}

// TestFlippedBits flips one bit of a journal: only samples before it are read, unchanged.
func TestFlippedBits(t *testing.T) {
	rec := steady([]string{"/a", "/b"}, 25)
	rows := inTime(rec)
	name := filepath.Join(t.TempDir(), "j")
	journalOf(t, name, header(rec), rows)
	whole := must.Get(os.ReadFile(name))(t)
	for i := len(journalMagic); i < len(whole); i++ {
		must.Do(t, os.WriteFile(name, flipped(whole, i), 0o600))
		got, lost, err := readRows(name)
		if errors.Is(err, ErrEmpty) {
			continue
		}
		if err != nil || lost == 0 || len(got) >= len(rows) || len(got) > 0 && !reflect.DeepEqual(rows[:len(got)], got) {
			t.Fatalf("bit of byte %d: %d rows, %d bytes lost, %v", i, len(got), lost, err)
		}
	}
}

// TestFullDisk records until a small file system is full. The error is ENOSPC, and the samples
// recorded before can be converted to another disk.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 256<<10)
	name := filepath.Join(dir, "a.parquet")
	rec := steady([]string{"/a", "/b"}, 20_000)
	r, err := Record(Output{Name: name}, header(rec))
	if err != nil {
		t.Fatal(err)
	}
	rows := inTime(rec)
	appended := 0
	for _, row := range rows {
		if err = r.Append(row); err != nil {
			break
		}
		appended++
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("after %d samples: %v, want %v", appended, err, syscall.ENOSPC)
	}
	if again := r.Append(rows[appended]); !errors.Is(again, syscall.ENOSPC) {
		t.Errorf("the next sample: %v", again)
	}
	var kept *KeptError
	if _, err := r.Finish(); !errors.As(err, &kept) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("Finish without space for the output: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 || filepath.Join(dir, entries[0].Name()) != kept.Journal {
		t.Errorf("files: %v, want the journal only", entries)
	}
	elsewhere := filepath.Join(t.TempDir(), "a.csv")
	c := must.Get(Convert(kept.Journal, Output{Name: elsewhere}))(t)
	got, lost, err := readRows(elsewhere)
	if err != nil || lost != 0 {
		t.Fatalf("%d bytes lost, %v", lost, err)
	}
	t.Logf("%d samples appended, %d kept", appended, c.Rows)
	if int64(len(got)) != c.Rows || appended-len(got) > 5000 || len(got) > appended {
		t.Errorf("%d of %d samples can be read, %d were converted", len(got), appended, c.Rows)
	}
	for i := range got {
		if rows[i].Usage != got[i].Usage || rows[i].Group != got[i].Group {
			t.Fatalf("sample %d differs", i)
		}
	}
	if _, err := Record(Output{Name: name}, header(rec)); !errors.As(err, new(*JournalExistsError)) {
		t.Errorf("a second recording over the journal: %v", err)
	}
}

// smallDisk mounts a file system of the given size in bytes and returns its directory.
func smallDisk(t *testing.T, size int) string {
	need.This(t, "a file system of its own")
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root: run the test as root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(size)); err != nil {
		t.Skipf("no small file system can be mounted (%v): run the test where mount(2) is allowed", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// TestOutputsAreNotReplaced: existing files are replaced only if Output.Replace is set.
func TestOutputsAreNotReplaced(t *testing.T) {
	dir := t.TempDir()
	rec := steady([]string{"/a"}, 3)
	name := filepath.Join(dir, "a.csv")
	must.Do(t, os.WriteFile(name, []byte("precious"), 0o600))
	if _, err := Record(Output{Name: name}, header(rec)); !errors.Is(err, os.ErrExist) {
		t.Errorf("Record over a file: %v", err)
	}
	if _, err := Write(Output{Name: name}, header(rec), Rows(rec)); !errors.Is(err, os.ErrExist) {
		t.Errorf("Write over a file: %v", err)
	}
	// A file that is created during the recording is kept, too.
	other := filepath.Join(dir, "b.csv")
	r := must.Get(Record(Output{Name: other}, header(rec)))(t)
	must.Do(t, r.Append(inTime(rec)[0]))
	must.Do(t, os.WriteFile(other, []byte("precious"), 0o600))
	if _, err := r.Finish(); !errors.As(err, new(*KeptError)) || !errors.Is(err, os.ErrExist) {
		t.Errorf("Finish over a file: %v", err)
	}
	for _, n := range []string{name, other} {
		if text, _ := os.ReadFile(n); string(text) != "precious" {
			t.Errorf("%s reads %q", n, text)
		}
	}
	recordTo(t, rec, name) // with Replace
	check(t, rec, name)
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"a.csv", "b.csv", "b.csv.journal"}; !slices.Equal(names, want) {
		t.Errorf("the directory contains %v, want %v", names, want)
	}
}

// TestNothingRecorded: a recording without samples leaves neither output nor journal.
func TestNothingRecorded(t *testing.T) {
	dir := t.TempDir()
	r := must.Get(Record(Output{Name: filepath.Join(dir, "a.parquet")}, Header{time.Now(), time.Second}))(t)
	if c, err := r.Finish(); err != nil || c.Rows != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("files: %v, want none", entries)
	}
}
