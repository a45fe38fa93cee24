package place

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"k8s.io/utils/lru"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/must"
)

const (
	oneCPU = `{"cpus":[{"id":0,"core":0,"llc":0,"numa":0,"die":0,"package":0,"kind":""}]}`
	placed = `{"cpus":"0","numaNodes":[0],"packages":1,"llcs":1,"splitCores":0,"exact":true}` + "\n"
)

// TestBatchTalks writes requests to a pipe and waits for each answer before the next request.
func TestBatchTalks(t *testing.T) {
	questions, ask := io.Pipe()
	replies, answers := io.Pipe()
	done := make(chan error, 1)
	go func() {
		cmd := NewPlace()
		cmd.SetArgs([]string{"--batch", "-"})
		cmd.SetIn(questions)
		cmd.SetOut(answers)
		done <- cmd.ExecuteContext(t.Context())
		answers.Close()
	}()
	reader := bufio.NewReader(replies)
	for range 3 {
		must.Get(fmt.Fprintf(ask, `{"machine":%s,"cpus":1}`+"\n", oneCPU))(t)
		if got, err := reader.ReadString('\n'); got != placed || err != nil {
			t.Fatalf("answer %q, %v", got, err)
		}
	}
	ask.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestBatchLineLength sends lines around the maximum length.
func TestBatchLineLength(t *testing.T) {
	line := func(size int) string {
		head := fmt.Sprintf(`{"machine":%s,"cpus":1`, oneCPU)
		return head + strings.Repeat(" ", size-len(head)-1) + "}\n"
	}
	in := line(maxLine) + line(maxLine+1) + line(200) + strings.TrimSuffix(line(maxLine+100_000), "\n")
	tooLong := `{"error":"line %d: the line is longer than 16 MiB"}` + "\n"
	want := placed + fmt.Sprintf(tooLong, 2) + placed + fmt.Sprintf(tooLong, 4)
	var out bytes.Buffer
	must.Do(t, answerBatch(t.Context(), "-", strings.NewReader(in), &out))
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("answers differ (-want +got):\n%s", diff)
	}
}

// endless repeats a line n times without keeping the copies in memory.
type endless struct {
	n    int
	line string
	rest string
}

func (e *endless) Read(b []byte) (int, error) {
	filled := 0
	for filled < len(b) {
		if e.rest == "" {
			if e.n == 0 {
				break
			}
			e.n--
			e.rest = e.line
		}
		n := copy(b[filled:], e.rest)
		e.rest = e.rest[n:]
		filled += n
	}
	if filled == 0 {
		return 0, io.EOF
	}
	return filled, nil
}

// lineCounter counts what is written, and how much memory is in use meanwhile.
type lineCounter struct {
	lines   int
	largest uint64
}

func (c *lineCounter) Write(b []byte) (int, error) {
	c.lines += bytes.Count(b, []byte("\n"))
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	c.largest = max(c.largest, stats.HeapInuse)
	return len(b), nil
}

// TestBatchMemory answers 20 MB of requests in far less memory.
func TestBatchMemory(t *testing.T) {
	const n = 100_000
	line := fmt.Sprintf(`{"machine":%s,"cpus":1%s}`+"\n", oneCPU, strings.Repeat(" ", 100))
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	out := &lineCounter{}
	must.Do(t, answerBatch(t.Context(), "-", &endless{n: n, line: line}, out))
	if out.lines != n {
		t.Errorf("%d answers, want %d", out.lines, n)
	}
	if grown := int64(out.largest) - int64(before.HeapInuse); grown > 10<<20 {
		t.Errorf("the heap grew by %d MiB over a batch of %d MiB, want less than 10 MiB", grown>>20, n*len(line)>>20)
	}
}

func TestBatchStops(t *testing.T) {
	in := fmt.Sprintf(`{"machine":%s,"cpus":1}`+"\n", oneCPU)
	t.Run("when its output fails", func(t *testing.T) {
		reader, writer := io.Pipe()
		reader.CloseWithError(errors.New("the disk is full"))
		err := answerBatch(t.Context(), "-", strings.NewReader(in), writer)
		if err == nil || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("error %v, want the writer's", err)
		}
	})
	t.Run("when its input fails", func(t *testing.T) {
		var out bytes.Buffer
		broken := io.MultiReader(strings.NewReader(in), iotest.ErrReader(errors.New("the disk is gone")))
		err := answerBatch(t.Context(), "-", broken, &out)
		if err == nil || !strings.Contains(err.Error(), "line 2: the disk is gone") {
			t.Errorf("error %v, want the reader's and the line", err)
		}
		if out.String() != placed {
			t.Errorf("answers %q, want the one that was complete", out.String())
		}
	})
	t.Run("when told to", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := answerBatch(ctx, "-", strings.NewReader(in), io.Discard); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the context", err)
		}
	})
}

// TestMachinesAreKept checks that the cache drops a machine after many others have been used.
func TestMachinesAreKept(t *testing.T) {
	dir := t.TempDir()
	ms := &machineCache{dir: dir, kept: lru.New(maxMachines)}
	inline := func(memory int) request {
		return request{Machine: json.RawMessage(fmt.Sprintf(`{"cpus":[{"id":%d}]}`, memory))}
	}
	text := must.Get(json.Marshal(topology.Intel104().MustBuild()))(t)
	path := filepath.Join(dir, "intel.json")
	must.Do(t, os.WriteFile(path, text, 0o600))
	for name, first := range map[string]request{
		"inline": inline(1000), "relative": {MachineFile: "intel.json"}, "absolute": {MachineFile: path},
	} {
		t.Run(name, func(t *testing.T) {
			kept := must.Get(ms.get(first))(t)
			for i := range maxMachines - 1 {
				must.Get(ms.get(inline(i)))(t)
			}
			if again, _ := ms.get(first); again != kept {
				t.Error("the machine was read again")
			}
			for i := range maxMachines {
				must.Get(ms.get(inline(i)))(t)
			}
			if again, _ := ms.get(first); again == kept {
				t.Errorf("more than %d machines are kept", maxMachines)
			}
			if n := ms.kept.Len(); n != maxMachines {
				t.Errorf("%d machines are kept, want %d", n, maxMachines)
			}
		})
	}
}

// TestLines compares the line reader with bytes.Split, for input that arrives in pieces.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "\n", "\r", "0123456789abcdef"})).Draw(t, "text"), ""))
		want := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
		if len(text) == 0 {
			want = nil
		}
		lines := &lineReader{r: bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(text)), 16)}
		var got [][]byte
		for {
			line, err := lines.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, bytes.Clone(line))
		}
		if diff := cmp.Diff(fmt.Sprintf("%q", want), fmt.Sprintf("%q", got)); diff != "" {
			t.Errorf("lines differ (-want +got):\n%s", diff)
		}
	})
}

// FuzzRequest compares the decoder with encoding/json, which must accept everything that the
// decoder accepts, with the same result.
func FuzzRequest(f *testing.F) {
	script := must.Get(os.ReadFile("../../testdata/script/batch-refusals.txtar"))(f)
	for line := range strings.Lines(string(script)) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := decodeRequest(line)
		if err != nil {
			return
		}
		var want request
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&want); err != nil {
			t.Fatalf("accepted %q, which is wrong: %v", line, err)
		}
		if string(want.Machine) == "null" {
			want.Machine = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q is understood differently (-want +got):\n%s", line, diff)
		}
	})
}
