package tracefile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// errJSON explains what to do with a file of JSON. Its beginning is enough to recognise an answer
// of Prometheus.
func errJSON(in *bufio.Reader) error {
	begin, _ := in.Peek(4096) // less if the file is shorter
	var answer struct{ Error string }
	switch _ = json.Unmarshal(begin, &answer); { // the answers that name an error are short
	case isExposition(string(begin)): // of promtool tsdb dump
		return errExposition
	case answer.Error != "":
		return fmt.Errorf("Prometheus refused the query: %s: change the query and ask again", strings.TrimRight(answer.Error, ".")) //nolint:staticcheck // a name
	case bytes.Contains(begin, []byte(`"resultType"`)), bytes.Contains(begin, []byte(`"metric"`)):
		return errors.New("an answer of Prometheus, and no recording: 'pinfold advise --prometheus URL' asks the server itself")
	}
	return errors.New("JSON, and not a recording in CSV, Parquet or .npy")
}

// isExposition reports whether a file begins as metrics in text form do: those of an endpoint, of
// /federate, or of promtool.
func isExposition(begin string) bool {
	line, _, _ := strings.Cut(begin, "\n")
	name, labels, _ := strings.Cut(line, "{")
	return strings.HasPrefix(line, "# HELP ") || strings.HasPrefix(line, "# TYPE ") || !strings.ContainsAny(name, ", ;\t") && strings.Contains(labels, `="`)
}

// errExposition explains what to do with such a file.
var errExposition = errors.New("metrics as text, and no recording: 'pinfold advise --prometheus URL' asks the server that reads them")

// isJSON reports whether a file that begins like this may be JSON.
func isJSON(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}
