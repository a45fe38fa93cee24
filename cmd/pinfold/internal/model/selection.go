package model

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/simulation"
	"pinfold.dev/pinfold/tracefile"
)

// maxSamplesAtOnce bounds the samples in memory: about 100 MB, and 300 MB with the garbage of
// reading (measured with 100 groups of 72,000 samples each).
const maxSamplesAtOnce = 1 << 20

// selectionOptions selects groups of recordings.
type selectionOptions struct {
	files    []string
	groups   []string       // paths or names; none selects all
	interval *time.Duration // of the samples of .npy files
}

// group is a group of a recording, before its samples are read.
type group struct {
	simulation.Group
	samples      int
	used         bool
	limited      bool             // in any sample
	unknown      trace.Figures    // in any sample
	limits       bandwidth.Limits // of the last sample that has them
	limitsKnown  bool             // in any sample
	limitChanges int
}

// check rejects selections that are wrong for every recording.
func (s *selectionOptions) check() error {
	for i, file := range s.files {
		if file == "" {
			return frame.Usagef("a recording has no name: name a file, such as web.parquet")
		}
		if slices.Contains(s.files[:i], file) {
			return frame.Usagef("%s is named twice", file)
		}
	}
	if slices.Contains(s.groups, "") { // would match all groups without a name
		return frame.Usagef("--group is empty: name a group, as 'pinfold trace info' shows them")
	}
	return nil
}

// survey reads all recordings once and returns the selected groups.
func (s *selectionOptions) survey(ctx context.Context, stderr io.Writer) ([]group, error) {
	var all []group
	for _, file := range s.files {
		groups, err := surveyFile(ctx, stderr, file, *s.interval)
		if err != nil {
			return nil, err
		}
		all = append(all, groups...)
	}
	for _, word := range s.groups {
		if !slices.ContainsFunc(all, func(g group) bool { return g.Matches(word) }) {
			return nil, fmt.Errorf("%s: no samples of group %s: 'pinfold trace info' says which groups there are", strings.Join(s.files, ", "), word)
		}
	}
	return s.choose(stderr, all)
}

// surveyFile returns the groups of one recording, in order of their paths.
func surveyFile(ctx context.Context, stderr io.Writer, file string, interval time.Duration) ([]group, error) {
	f, err := tracefile.Open(file, interval)
	if err != nil {
		return nil, files.SuggestInterval(err)
	}
	defer f.Close()
	var groups []group
	index := map[string]int{}
	for row, err := range files.Until(ctx, f.Rows()) {
		if err != nil {
			return nil, err
		}
		i, known := index[row.Group]
		if !known {
			i = len(groups)
			index[row.Group] = i
			groups = append(groups, group{Group: simulation.Group{File: file, Path: row.Group}, limits: row.Limits})
		}
		g := &groups[i]
		g.samples++
		g.used = g.used || row.Usage > 0
		if !row.Unknown.Has(trace.Limits) {
			if g.limitsKnown && row.Limits != g.limits {
				g.limitChanges++
			}
			g.limits, g.limitsKnown = row.Limits, true
		}
		g.unknown |= row.Unknown
		g.limited = g.limited || row.Limits.Quota != bandwidth.Unlimited
		if g.Name == "" {
			g.Name = row.Name
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s: %w", file, tracefile.ErrEmpty)
	}
	files.NoteLost(stderr, file, f.Lost())
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(a.Path, b.Path) })
	return groups, nil
}

// maxIdleNamed bounds the idle groups that are named in messages. A recording may have
// thousands.
const maxIdleNamed = 10

// choose returns the selected groups. Sandboxes of pods are omitted unless they were selected by
// name. Idle groups are omitted with a message; one that was selected by name is an error.
func (s *selectionOptions) choose(stderr io.Writer, all []group) ([]group, error) {
	var chosen []group
	names := map[string]string{}
	for _, g := range all {
		names[g.Path] = cmp.Or(g.Name, names[g.Path])
	}
	sandboxes := groups.Sandboxes(names)
	idle := 0
	for _, g := range all {
		wanted := slices.ContainsFunc(s.groups, g.Matches)
		switch {
		case !wanted && (len(s.groups) > 0 || sandboxes[g.Path]):
		case g.used:
			chosen = append(chosen, g)
		case wanted || len(all) == 1:
			return nil, fmt.Errorf("%s: %s used no CPU time at all: record while it works", g.File, g.Path)
		default:
			if idle++; idle <= maxIdleNamed {
				frame.Notef(stderr, "%s: %s used no CPU time at all, and is left out", g.File, g.Path)
			}
		}
	}
	if idle > maxIdleNamed {
		frame.Notef(stderr, "%d more groups used no CPU time at all, and are left out", idle-maxIdleNamed)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%s: no group used any CPU time: record while they work", strings.Join(s.files, ", "))
	}
	return chosen, nil
}

// eachSeries calls do with the samples of each group. It reads groups of one file together while
// they have at most maxAtOnce samples.
func (s *selectionOptions) eachSeries(ctx context.Context, groups []group, maxAtOnce int, do func(group, time.Duration, *trace.Series) error) error {
	for len(groups) > 0 {
		n := batchOf(groups, maxAtOnce)
		rec, err := readGroups(ctx, groups[:n], *s.interval)
		if err != nil {
			return err
		}
		for i := range rec.Series {
			if err := do(groups[i], rec.Interval, &rec.Series[i]); err != nil {
				return err
			}
			rec.Series[i] = trace.Series{} // free the memory
		}
		groups = groups[n:]
	}
	return nil
}

// batchOf returns how many of the first groups are of one file and have at most that many samples
// together, at least 1.
func batchOf(groups []group, maxSamples int) int {
	n, samples := 1, groups[0].samples
	for ; n < len(groups) && groups[n].File == groups[0].File && samples+groups[n].samples <= maxSamples; n++ {
		samples += groups[n].samples
	}
	return n
}

// readGroups reads the samples of groups of one file, which are in order of their paths.
func readGroups(ctx context.Context, groups []group, interval time.Duration) (*trace.Recording, error) {
	f, err := tracefile.Open(groups[0].File, interval)
	if err != nil {
		return nil, files.SuggestInterval(err)
	}
	defer f.Close()
	wanted := map[string]bool{}
	for _, g := range groups {
		wanted[g.Path] = true
	}
	rec, err := tracefile.Gather(f.Header(), tracefile.Only(files.Until(ctx, f.Rows()), func(r *tracefile.Row) bool { return wanted[r.Group] }))
	if err != nil {
		return nil, err
	}
	if len(rec.Series) != len(groups) {
		return nil, fmt.Errorf("%s changed while it was read", groups[0].File)
	}
	return rec, f.AddExact(rec)
}
