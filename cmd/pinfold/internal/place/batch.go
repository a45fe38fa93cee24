package place

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/utils/lru"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/report"
)

// maxLine is the size of the longest accepted request, without its line end.
const maxLine = 16 << 20

var errTooLong = fmt.Errorf("the line is longer than %d MiB", maxLine>>20)

// checkBatchFlags rejects flags that have no meaning for a batch.
func checkBatchFlags(flags *pflag.FlagSet) error {
	for _, name := range []string{"machine", "sysfs", "cpus", "free", "pid", "policy", "full-cores"} {
		if flags.Changed(name) {
			return frame.Usagef("--%s cannot be used with --batch: every request says it for itself", name)
		}
	}
	if flags.Lookup("batch").Value.String() == "" {
		return frame.Usagef("--batch is empty: name a file, or - for standard input")
	}
	if flags.Changed("output") && flags.Lookup("output").Value.String() != string(frame.JSON) {
		return frame.Usagef("the answers of --batch are JSON: use -o json")
	}
	return nil
}

// refusal is the answer to a request that cannot be served.
type refusal struct {
	Error string `json:"error"`
}

// answerBatch answers the requests of a file line by line. It holds one line and a few machines in
// memory, however long the file is. It writes all answers before it waits for more input, so a
// program can use it interactively through pipes.
func answerBatch(ctx context.Context, name string, stdin io.Reader, stdout io.Writer) error {
	in, dir := stdin, "."
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("--batch: %w", err)
		}
		defer f.Close()
		in, dir = f, filepath.Dir(name)
	}
	lines := &lineReader{r: bufio.NewReaderSize(in, 64<<10)}
	out := bufio.NewWriterSize(stdout, 64<<10)
	flush := func() error { return report.Flush(out, "print the answers") }
	machines := &machineCache{dir: dir, kept: lru.New(maxMachines)}
	for number := 1; ; number++ {
		if err := ctx.Err(); err != nil {
			return errors.Join(err, out.Flush())
		}
		if lines.r.Buffered() == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return errors.Join(fmt.Errorf("--batch %s: line %d: %w", name, number, err), out.Flush())
		}
		var reply any
		if err == nil {
			reply, err = answerLine(machines, line)
		}
		if err != nil {
			reply = refusal{fmt.Sprintf("line %d: %v", number, err)}
		}
		if err := frame.PrintJSON(out, reply); err != nil {
			return err
		}
	}
}

func answerLine(machines *machineCache, line []byte) (any, error) {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errors.New("the line is empty, want one request per line")
	}
	r, err := decodeRequest(line)
	if err != nil {
		return nil, err
	}
	index, err := machines.get(r)
	if err != nil {
		return nil, err
	}
	m := index.Machine()
	free := m.Online()
	if r.Free != nil {
		if free, err = freeCPUs(m, *r.Free); err != nil {
			return nil, fmt.Errorf("free: %w", err)
		}
	}
	result, err := index.Place(free, placement.Request{CPUs: r.CPUs, Policy: r.Policy, FullCores: r.FullCores})
	if err != nil {
		return nil, fmt.Errorf("cannot place: %w", err)
	}
	return newAnswer(m, result), nil
}

// lineReader splits its input into lines of at most maxLine bytes.
type lineReader struct {
	r    *bufio.Reader
	line []byte
}

// next returns the next line without its end, valid until the next call, or io.EOF. The last line
// may lack its end. After errTooLong the reader is at the beginning of the next line.
func (l *lineReader) next() ([]byte, error) {
	l.line = l.line[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		if tooLong = tooLong || len(l.line)+len(part) > maxLine; !tooLong {
			l.line = append(l.line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && err != io.EOF:
			return nil, err
		case err == io.EOF && len(l.line) == 0 && !tooLong:
			return nil, io.EOF
		case tooLong:
			return nil, errTooLong
		}
		return l.line, nil
	}
}

// maxMachines bounds the cache of a batch. Clusters have few shapes of machines; a batch with more
// is still answered, only more slowly.
const maxMachines = 64

// machineCache keeps the machines that were used last, ready for placement: files by path, inline
// machines by their text. Later changes to a file are not noticed while it is kept.
type machineCache struct {
	dir  string     // machine files are relative to it
	kept *lru.Cache // of *placement.Index
}

// get returns the machine of a request. A machine that cannot be read is not kept.
func (c *machineCache) get(r request) (*placement.Index, error) {
	key, read := c.source(r)
	if index, ok := c.kept.Get(key); ok {
		return index.(*placement.Index), nil
	}
	m, err := read()
	if err != nil {
		return nil, err
	}
	index := placement.NewIndex(m)
	c.kept.Add(key, index)
	return index, nil
}

// source returns a key for the machine of a request, and how to read it.
func (c *machineCache) source(r request) (key string, read func() (*topology.Machine, error)) {
	if r.Machine != nil {
		sum := sha256.Sum256(r.Machine)
		return "text " + string(sum[:]), func() (*topology.Machine, error) {
			m, err := topology.Decode(bytes.NewReader(r.Machine))
			if err != nil {
				return nil, fmt.Errorf("field \"machine\": %w", err)
			}
			return m, nil
		}
	}
	path := r.MachineFile
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.dir, path)
	}
	return "file " + path, func() (*topology.Machine, error) { return readMachineFile(path) }
}
