package top

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/golden"
)

// TestTable plays testdata/*.txt. Lines are
//
//	group NAME limit=CPUS period=D noburst=1   what its samples have from now on
//	sample NAME usage=D,D.. periods=N throttled=N burst=D interval=D late=D
//	                   samples one after the other, each of the next usage
//	wait NAME=SHARE...
//	sandbox NAME
//	remove NAME
//	rename OLD NEW
//	status share=S late=N missed=N message=TEXT
//	press KEY...
//	draw WIDTHxHEIGHT [colour]
func TestTable(t *testing.T) {
	golden.Scenarios(t, "testdata/*.txt", func(t *testing.T, text string) string {
		p := &player{model: New(), samples: map[string]*trace.Sample{}}
		p.model.Next = func(w Worst) string {
			return fmt.Sprintf("%s: throttled %.2f at %.2f of its limit", w.Group, w.Throttled, w.OfLimit)
		}
		return golden.Blocks(t, text, p.do)
	})
}

type player struct {
	model   *Model
	samples map[string]*trace.Sample // the last of each group
}

func (p *player) do(words []string) (string, error) {
	if words[0] == "draw" {
		return p.draw(words[1:])
	}
	values := map[string]string{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		values[name] = value
	}
	switch words[0] {
	case "group":
		return "", p.group(words[1], values)
	case "sample":
		return "", p.sample(words[1], values)
	case "wait":
		p.model.SetWaits(func(group string) (float64, bool) {
			share, err := strconv.ParseFloat(values[group], 64)
			return share, err == nil
		})
	case "sandbox":
		p.model.Never = func(group string) bool { return group == words[1] }
	case "remove":
		p.model.Remove(words[1])
	case "rename":
		p.model.Rename(func(group string) string {
			if group == words[1] {
				return words[2]
			}
			return group
		})
	case "status":
		share, err := strconv.ParseFloat(values["share"], 64)
		p.model.Status = Status{Share: share, Late: count(values["late"]), Missed: count(values["missed"]), Message: values["message"]}
		return "", err
	case "press":
		return p.press(words[1:])
	default:
		return "", fmt.Errorf("unknown word %q", words[0])
	}
	return "", nil
}

func count(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 32)
	return n
}

func duration(text string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return otherwise
}

func (p *player) group(name string, values map[string]string) error {
	s := &trace.Sample{Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: duration(values["period"], 100*time.Millisecond)}}
	if limit, ok := values["limit"]; ok {
		cpus, err := strconv.ParseFloat(limit, 64)
		if err != nil {
			return err
		}
		s.Limits.Quota = time.Duration(cpus * float64(s.Limits.Period))
	}
	if old := p.samples[name]; old != nil {
		s.At = old.At
	}
	if p.samples[name] = s; values["noburst"] != "" {
		s.Unknown = trace.Bursts
	}
	return nil
}

func (p *player) sample(name string, values map[string]string) error {
	s := p.samples[name]
	if s == nil {
		return fmt.Errorf("group %s first", name)
	}
	for usage := range strings.SplitSeq(values["usage"], ",") {
		s.Interval = duration(values["interval"], s.Limits.Period)
		s.At += s.Interval
		s.Usage, s.BurstTime = duration(usage, 0), duration(values["burst"], 0)
		s.Periods, s.Throttled = uint32(count(values["periods"])), uint32(count(values["throttled"]))
		p.model.Add(name, *s)
	}
	return nil
}

func (p *player) press(keys []string) (said string, err error) {
	named := map[string]Key{"up": KeyUp, "down": KeyDown, "pageup": KeyPageUp, "pagedown": KeyPageDown, "home": KeyHome, "end": KeyEnd, "ctrl-c": 3}
	for _, key := range keys {
		k, ok := named[key]
		if !ok {
			k = Key(key[0])
		}
		if p.model.Press(k) {
			said += "quits\n"
		}
	}
	return said, nil
}

func (p *player) draw(words []string) (string, error) {
	var s Size
	if _, err := fmt.Sscanf(words[0], "%dx%d", &s.Width, &s.Height); err != nil {
		return "", err
	}
	s.Colour = len(words) > 1
	text := p.model.Draw(s)
	var out strings.Builder
	for line := range strings.Lines(text) { // empty lines would end the block
		out.WriteString("|" + strings.ReplaceAll(line, "\x1b", "ESC"))
	}
	return out.String(), nil
}

// TestFits draws any groups at any size: no line is too wide, and there are not too many lines.
func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New()
		m.All = rapid.Bool().Draw(t, "all")
		for i := range rapid.IntRange(0, 12).Draw(t, "groups") {
			name := fmt.Sprint(i, rapid.StringMatching("[a-z/·]{0,60}").Draw(t, "name"))
			at := time.Duration(0)
			for range rapid.IntRange(1, 4).Draw(t, "samples") {
				s := trace.Sample{
					Interval:  time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "interval")),
					Usage:     time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "usage")),
					Throttled: rapid.Uint32().Draw(t, "throttled"), Periods: rapid.Uint32().Draw(t, "periods"),
					BurstTime: time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "burst")),
					Limits:    bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond},
				}
				if rapid.Bool().Draw(t, "limited") {
					s.Limits.Quota = time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Minute)).Draw(t, "quota"))
				}
				at += s.Interval
				s.At = at
				m.Add(name, s)
			}
		}
		for _, k := range rapid.SliceOf(rapid.SampledFrom([]Key{'n', 'u', 's', 't', 'b', 'l', 'r', 'a', 'j', 'k', ' ', KeyEnd, KeyHome, KeyPageUp, 'x'})).Draw(t, "keys") {
			m.Press(k)
		}
		size := Size{Width: rapid.IntRange(1, 200).Draw(t, "width"), Height: rapid.IntRange(1, 30).Draw(t, "height")}
		text := m.Draw(size)
		if lines := strings.Count(text, "\n"); lines > size.Height {
			t.Fatalf("%d lines on %d:\n%s", lines, size.Height, text)
		}
		for line := range strings.Lines(text) {
			if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > size.Width {
				t.Fatalf("a line of %d on %d:\n%s", width, size.Width, text)
			}
		}
	})
}
