//go:build linux

package why

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"pinfold.dev/pinfold/internal/tabular"
	"pinfold.dev/pinfold/report/why"
)

// readRequests reads a log of requests: CSV with a header, of which the columns "start" and "end"
// count. These are times as [tabular.ParseTime] reads them. More than most requests are an error.
func readRequests(r io.Reader, most int) (all []why.Request, err error) {
	in, err := tabular.NewReader(r, "start", "end")
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the log is empty: want CSV with the columns start and end")
	}
	if err != nil {
		return nil, err
	}
	start, end := slices.Index(in.Names, "start"), slices.Index(in.Names, "end")
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var q why.Request
		if q.Start, err = timeIn(in, record, start); err == nil {
			q.End, err = timeIn(in, record, end)
		}
		if err != nil {
			return nil, err
		}
		if q.End.Before(q.Start) {
			return nil, fmt.Errorf("line %d: the request ends before it starts", in.Line(0))
		}
		if len(all) == most {
			return nil, fmt.Errorf("it has more than %d requests: give those of the traced time only", most)
		}
		all = append(all, q)
	}
}

// timeIn returns the time in column i of the present line.
func timeIn(in *tabular.Reader, record []string, i int) (time.Time, error) {
	ns, _, err := tabular.ParseTime(record[i])
	if err != nil {
		return time.Time{}, fmt.Errorf("line %d: column %q: %w", in.Line(i), in.Names[i], err)
	}
	return time.Unix(0, ns).UTC(), nil
}
