package tabular

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/zstd"
)

// Limits for decompressed content: a constant plus an amount per byte of the file, which tables
// do not reach.
const (
	maxContent        = 32 << 20
	maxContentPerByte = 64
	maxWindow         = 8 << 20 // what RFC 8878 recommends to support
)

// Decompress returns the content of a file of a size, which may be compressed with gzip, zstd or
// bzip2, whatever its name is, and whether it is.
func Decompress(in io.Reader, size int64) (out *bufio.Reader, compressed bool, err error) {
	b := bufio.NewReaderSize(in, 64<<10)
	head, _ := b.Peek(6) // a read error is returned again
	var r io.Reader
	switch is := func(magic string) bool { return bytes.HasPrefix(head, []byte(magic)) }; {
	case is("\x1f\x8b"):
		r, err = gzip.NewReader(b)
	case is("\x28\xb5\x2f\xfd"):
		r, err = zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	case is("BZh"):
		r = bzip2.NewReader(b)
	case is("\xfd7zXZ\x00"):
		return nil, false, errors.New("it is compressed with xz: decompress it with 'unxz', or write it with gzip")
	case is("PK\x03\x04"):
		return nil, false, errors.New("it is a ZIP archive or a spreadsheet: extract the file with 'unzip', or save the sheet as CSV")
	default:
		return b, false, nil
	}
	if err != nil {
		return nil, false, errDamaged
	}
	return bufio.NewReaderSize(&limited{r, maxContent + maxContentPerByte*size}, 64<<10), true, nil
}

var errDamaged = errors.New("the compressed file is damaged, or was cut short")

// limited reads up to a number of bytes of decompressed content.
type limited struct {
	in   io.Reader
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("it decompresses to more than %d times its size: decompress it first", maxContentPerByte)
	}
	n, err := l.in.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	var disk *fs.PathError
	if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &disk) {
		err = errDamaged
	}
	return n, err
}
