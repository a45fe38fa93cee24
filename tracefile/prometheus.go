package tracefile

import (
	"bufio"
	"bytes"
	"errors"
)

// errJSON explains what to do with a file of JSON. Its beginning is enough to recognise an answer
// of Prometheus.
func errJSON(in *bufio.Reader) error {
	begin, _ := in.Peek(4096) // less if the file is shorter
	switch {
	case bytes.Contains(begin, []byte(`"resultType"`)), bytes.Contains(begin, []byte(`"metric"`)):
		return errors.New("JSON of Prometheus, which only 'pinfold advise' reads")
	}
	return errors.New("JSON, and not a recording in CSV, Parquet or .npy")
}

// isJSON reports whether a file that begins like this may be JSON.
func isJSON(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}
