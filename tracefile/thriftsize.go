package tracefile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// maxThriftDepth is more than any part of a Parquet file has.
const maxThriftDepth = 32

var errThrift = errors.New("a length in it is longer than what follows, or it ends too soon")

// The types of Thrift's compact protocol (doc/specs/thrift-compact-protocol.md of Apache
// Thrift).
const (
	thriftTrue byte = iota + 1
	thriftFalse
	thriftByte
	thriftInt16
	thriftInt32
	thriftInt64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

// thriftSize returns how many bytes a Thrift struct in the compact protocol takes. All lengths
// in it are compared with what is there: a decoder makes room for what they say.
func thriftSize(b []byte) (int, error) {
	rest, err := skipThriftStruct(b, 0)
	return len(b) - len(rest), err
}

func skipThriftStruct(b []byte, depth int) ([]byte, error) {
	if depth > maxThriftDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", maxThriftDepth)
	}
	for {
		if len(b) == 0 {
			return nil, errThrift
		}
		head := b[0]
		b = b[1:]
		if head == 0 {
			return b, nil
		}
		var err error
		if head>>4 == 0 { // the field's number is not that of the one before, and a few
			if _, b, err = thriftVarint(b); err != nil {
				return nil, err
			}
		}
		kind := head & 0xf
		if kind == thriftTrue || kind == thriftFalse {
			continue // the value is the type
		}
		if b, err = skipThrift(b, kind, depth); err != nil {
			return nil, err
		}
	}
}

// skipThrift skips a value that is not a field of type bool.
func skipThrift(b []byte, kind byte, depth int) ([]byte, error) {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return skipBytes(b, 1)
	case thriftInt16, thriftInt32, thriftInt64:
		_, b, err := thriftVarint(b)
		return b, err
	case thriftDouble:
		return skipBytes(b, 8)
	case thriftBinary:
		n, b, err := thriftVarint(b)
		if err != nil {
			return nil, err
		}
		return skipBytes(b, n)
	case thriftList, thriftSet:
		return skipThriftList(b, depth)
	case thriftStruct:
		return skipThriftStruct(b, depth+1)
	default: // no map is in Parquet's metadata
		return nil, fmt.Errorf("type %d has no place in it", kind)
	}
}

func skipThriftList(b []byte, depth int) ([]byte, error) {
	if len(b) == 0 {
		return nil, errThrift
	}
	kind, n := b[0]&0xf, uint64(b[0]>>4)
	b = b[1:]
	var err error
	if n == 0xf {
		if n, b, err = thriftVarint(b); err != nil {
			return nil, err
		}
	}
	if n > uint64(len(b)) { // every element takes a byte
		return nil, errThrift
	}
	for range n {
		if b, err = skipThrift(b, kind, depth+1); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func thriftVarint(b []byte) (uint64, []byte, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return 0, nil, errThrift
	}
	return n, b[size:], nil
}

func skipBytes(b []byte, n uint64) ([]byte, error) {
	if n > uint64(len(b)) {
		return nil, errThrift
	}
	return b[n:], nil
}
