// Package remote is how a command that "kubectl pinfold" runs on a node (--remote) returns several
// streams on its standard output, which an exec request has only one of. The command writes with
// [To], the plugin reads with [Split].
//
// A chunk is the stream's letter, the length in four bytes (big-endian), and the content.
package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Stream is what a chunk belongs to.
type Stream byte

// The streams.
const (
	Result Stream = 'r' // standard output
	File   Stream = 'f' // a file that the user named
	Ready  Stream = 'e' // empty: the command has ended tracing, and reads its input
	Whole  Stream = 'w' // empty: the file is complete
)

// To returns a writer of a stream. An empty chunk is written, too.
func To(out io.Writer, s Stream) io.Writer { return chunks{out, s} }

type chunks struct {
	out    io.Writer
	stream Stream
}

func (c chunks) Write(p []byte) (int, error) {
	head := binary.BigEndian.AppendUint32([]byte{byte(c.stream)}, uint32(len(p)))
	if _, err := c.out.Write(append(head, p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Split passes chunks on until the input ends, and returns io.ErrUnexpectedEOF if that is within
// one.
func Split(in io.Reader, streams map[Stream]io.Writer) error {
	var head [5]byte
	for {
		if _, err := io.ReadFull(in, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		out, size := streams[Stream(head[0])], int64(binary.BigEndian.Uint32(head[1:]))
		if out == nil {
			return fmt.Errorf("unknown output %q: is the agent of the plugin's version?", head[0])
		}
		if size == 0 {
			if _, err := out.Write(nil); err != nil {
				return err
			}
		}
		if _, err := io.CopyN(out, in, size); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
	}
}

// Func is a writer of an empty stream that calls a function.
type Func func()

func (f Func) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}
