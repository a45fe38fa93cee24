package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// flakes runs the class pure in random order and each smoke many times, and prints how often each
// passed. Each run adds a line to DIR/flakes-SOURCES.txt, so that another call continues, also after
// a commit that changed documents only.
func (s *suite) flakes(ctx context.Context) error {
	name, err := sources(ctx)
	if err != nil {
		return err
	}
	file := s.runner.path("flakes-" + name + ".txt")
	units := s.chosen(append([]unit{pure()}, smokes()...))
	if len(units) == 0 {
		return usageError{errors.New("no unit has such a name")}
	}
	s.runner.fresh = true
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer log.Close() // each write's error is looked at
	for {
		ran, good, err := rates(file)
		if err != nil {
			return err
		}
		next := slices.MinFunc(units, func(a, b unit) int { // so that an early end shows something of each
			return cmp.Compare(ran[a.name]*s.runs(b), ran[b.name]*s.runs(a))
		})
		if ran[next.name] >= s.runs(next) {
			return s.printRates(units, ran, good)
		}
		if next.pure {
			next.test = append([]string{"-shuffle=on"}, next.test...)
		}
		r, err := s.runner.once(ctx, next)
		if err != nil {
			return errors.Join(err, s.printRates(units, ran, good))
		}
		if _, err := fmt.Fprintf(log, "%s %s %.0f s, %s: %s\n", r.Unit, r.Verdict, r.Seconds, r.Disturbance, r.First); err != nil {
			return err
		}
	}
}

// runs returns how often flakes runs a unit.
func (s *suite) runs(u unit) int {
	if u.pure {
		return max(1, s.times/4)
	}
	return s.times
}

// rates counts the runs of each unit in a file of flakes, and those that passed.
func rates(file string) (ran, good map[string]int, err error) {
	ran, good = map[string]int{}, map[string]int{}
	log, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return ran, good, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer log.Close() // it is only read
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 {
			ran[fields[0]]++
			if fields[1] == string(passed) {
				good[fields[0]]++
			}
		}
	}
	return ran, good, lines.Err()
}

func (s *suite) printRates(units []unit, ran, good map[string]int) error {
	bad := 0
	for _, u := range units {
		fmt.Fprintf(s.out, "%-16s %d of %d passed\n", u.name, good[u.name], ran[u.name])
		bad += ran[u.name] - good[u.name]
	}
	if bad > 0 {
		return fmt.Errorf("%d runs did not pass: their reasons are in %s", bad, s.runner.dir)
	}
	return nil
}
