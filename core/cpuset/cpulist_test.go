package cpuset

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"\n", ""},
		{"0", "0"},
		{"0-3,8,10-11\n", "0-3,8,10-11"},
		{"11,10,8,0-3,2", "0-3,8,10-11"},
		{"0-25,52-77", "0-25,52-77"},
		{" 1 , 2 ", "1-2"},
		{"0-15:2/8", "0-1,8-9"},
		{"0-4:0/2", ""},
		{"1023", "1023"},
		{"62-65", "62-65"},
	} {
		got, err := Parse(tt.in)
		if err != nil || got.String() != tt.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"a", `"a" is not a CPU id`},
		{"-1", `"" is not a CPU id`},
		{"1,,2", `"" is not a CPU id`},
		{"5-3", `range "5-3" ends before it begins`},
		{"1024", "CPU id out of range: 1024 is above 1023"},
		{"99999999999999999999", "CPU id out of range"},
		{"0-3:2", "is not used/group"},
		{"0-3:3/2", "is not used/group"},
		{"3:1/2", "a pattern needs a range"},
	} {
		got, err := Parse(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) || !got.IsEmpty() {
			t.Errorf("Parse(%q) = %q, %v; want error with %q", tt.in, got, err, tt.want)
		}
	}
	if _, err := Parse("4096"); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("got %v, want ErrOutOfRange", err)
	}
}

func TestParseTyped(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"0-3,8", "0-3,8"},
		{"0-14:2", "0,2,4,6,8,10,12,14"}, // lscpu, taskset
		{"0-15:2/8", "0-1,8-9"},
		{"0 2 4 6", "0,2,4,6"}, // numactl, systemd
		{"0-3, 8-9 11", "0-3,8-9,11"},
		{"0-3,", "0-3"},
		{",1,,2\n", "1-2"},
		{"4-N", "4-11"}, // the kernel's lists
		{"N", "11"},
		{"0-N:4", "0,4,8"},
		{"all", "0-9,11"},
		{"ALL", "0-9,11"},
		{"", ""},
	} {
		got, err := ParseTyped(tt.in, MustParse("0-9,11"))
		if err != nil || got.String() != tt.want {
			t.Errorf("ParseTyped(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{"0xff", "ff", "1-", "1-2:0", "4:2", "a", "2-1", "1024", "0:all", "N-", "every", "none", "0..3", "0;1"} {
		got, err := ParseTyped(in, MustParse("0-7"))
		if err == nil || !got.IsEmpty() || !strings.Contains(err.Error(), "want ids and ranges such as 0-3,8 or 0-14:2, or all") {
			t.Errorf("ParseTyped(%q) = %q, %v", in, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0-3,8,10-11", "0-15:2/8", "1023", "5-3", "1,,2", "-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if typed, err := ParseTyped(text, Set{}); err != nil || typed != s {
			t.Fatalf("%q parsed to %v, and as typed to %v, %v", text, s, typed, err)
		}
		again, err := Parse(s.String())
		if err != nil || again != s {
			t.Fatalf("%q parsed to %v, which parsed to %v, %v", text, s, again, err)
		}
	})
}

func TestUnmarshalTextLeavesSetOnError(t *testing.T) {
	s := Of(7)
	if err := s.UnmarshalText([]byte("x")); err == nil || s != Of(7) {
		t.Fatalf("got %v, %v", s, err)
	}
}
