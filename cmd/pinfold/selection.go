package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/tracefile"
)

// samplesAtOnce is how many samples are in memory at a time: some 100 MB, and with what
// reading leaves behind 300 MB (measured with a hundred groups of 72,000 samples each).
const samplesAtOnce = 1 << 20

// selection is which groups of which recordings are asked about.
type selection struct {
	files    []string
	groups   []string       // paths or names; none for all
	interval *time.Duration // of the samples of .npy files
}

// idleNamed is how many groups that used nothing are named: a recording may have thousands.
const idleNamed = 10

// surveyed is a group of a recording, before its samples are read.
type surveyed struct {
	groupID
	samples int
	used    bool
	limited bool             // ever
	limits  bandwidth.Limits // of the last sample
}

// check refuses what no recording can answer.
func (s *selection) check() error {
	for i, file := range s.files {
		if slices.Contains(s.files[:i], file) {
			return &wrongUsage{fmt.Sprintf("%s is named twice", file)}
		}
	}
	return checkGroups(s.groups)
}

// survey reads all recordings once, and returns the groups that are asked about.
func (s *selection) survey(ctx context.Context, stderr io.Writer) ([]surveyed, error) {
	var all []surveyed
	for _, file := range s.files {
		groups, err := surveyFile(ctx, stderr, file, *s.interval)
		if err != nil {
			return nil, err
		}
		all = append(all, groups...)
	}
	for _, group := range s.groups {
		if !slices.ContainsFunc(all, func(g surveyed) bool { return g.isCalled(group) }) {
			return nil, fmt.Errorf("%s: no samples of group %s: 'pinfold trace info' says which groups there are", strings.Join(s.files, ", "), group)
		}
	}
	return s.choose(stderr, all)
}

// surveyFile looks through one recording.
func surveyFile(ctx context.Context, stderr io.Writer, file string, interval time.Duration) ([]surveyed, error) {
	f, err := tracefile.Open(file, interval)
	if err != nil {
		return nil, adviseTrace(err)
	}
	defer f.Close()
	var groups []surveyed
	index := map[string]int{}
	for row, err := range until(ctx, f.Rows()) {
		if err != nil {
			return nil, err
		}
		i, known := index[row.Group]
		if !known {
			i = len(groups)
			index[row.Group] = i
			groups = append(groups, surveyed{groupID: groupID{file: file, group: row.Group}})
		}
		g := &groups[i]
		g.samples++
		g.used = g.used || row.Usage > 0
		g.limits = row.Limits
		g.limited = g.limited || row.Limits.Quota != bandwidth.Unlimited
		if g.name == "" {
			g.name = row.Name
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("%s: %w", file, tracefile.ErrEmpty)
	}
	warnLost(stderr, file, f.Lost())
	slices.SortFunc(groups, func(a, b surveyed) int { return strings.Compare(a.group, b.group) })
	return groups, nil
}

// choose leaves out groups that were not asked for, and those that used nothing, as the
// sandboxes of pods do. One that was asked for by name is refused.
func (s *selection) choose(stderr io.Writer, all []surveyed) ([]surveyed, error) {
	var chosen []surveyed
	idle := 0
	for _, g := range all {
		wanted := slices.ContainsFunc(s.groups, g.isCalled)
		switch {
		case !wanted && len(s.groups) > 0:
		case g.used:
			chosen = append(chosen, g)
		case wanted || len(all) == 1:
			return nil, g.idle()
		default:
			if idle++; idle <= idleNamed {
				g.leaveOut(stderr)
			}
		}
	}
	if idle > idleNamed {
		fmt.Fprintf(stderr, "pinfold: %d more groups used no CPU time at all, and are left out\n", idle-idleNamed)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%s: no group used any CPU time: record while they work", strings.Join(s.files, ", "))
	}
	return chosen, nil
}

// eachSeries reads the samples of a few groups at a time: so many samples, unless one group has
// more. The interval is that of .npy files.
func eachSeries(ctx context.Context, groups []surveyed, interval time.Duration, atOnce int, do func(file string, interval time.Duration, s *trace.Series) error) error {
	for len(groups) > 0 {
		n := batchOf(groups, atOnce)
		rec, err := readGroups(ctx, groups[:n], interval)
		if err != nil {
			return err
		}
		for i := range rec.Series {
			if err := do(groups[0].file, rec.Interval, &rec.Series[i]); err != nil {
				return err
			}
			rec.Series[i].Samples = nil // what is done needs no memory
		}
		groups = groups[n:]
	}
	return nil
}

// batchOf returns how many groups of the same file have so many samples together; at least 1.
func batchOf(groups []surveyed, most int) int {
	n, samples := 1, groups[0].samples
	for ; n < len(groups) && groups[n].file == groups[0].file && samples+groups[n].samples <= most; n++ {
		samples += groups[n].samples
	}
	return n
}

// readGroups reads the samples of groups of one file.
func readGroups(ctx context.Context, groups []surveyed, interval time.Duration) (*trace.Recording, error) {
	f, err := tracefile.Open(groups[0].file, interval)
	if err != nil {
		return nil, adviseTrace(err)
	}
	defer f.Close()
	wanted := map[string]bool{}
	for _, g := range groups {
		wanted[g.group] = true
	}
	rec, err := tracefile.Gather(f.Header(), among(wanted, until(ctx, f.Rows())))
	if err == nil && len(rec.Series) != len(groups) {
		err = fmt.Errorf("%s changed while it was read", groups[0].file)
	}
	return rec, err
}

// among passes on the rows of some groups.
func among(wanted map[string]bool, rows iter.Seq2[*tracefile.Row, error]) iter.Seq2[*tracefile.Row, error] {
	return func(yield func(*tracefile.Row, error) bool) {
		for r, err := range rows {
			if (err != nil || wanted[r.Group]) && !yield(r, err) {
				return
			}
		}
	}
}
