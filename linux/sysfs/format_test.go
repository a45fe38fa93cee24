package sysfs

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
)

func TestParseMask(t *testing.T) {
	for _, test := range []struct{ mask, want string }{
		{"0", ""},
		{"1", "0"},
		{"fffff", "0-19"},
		{"0000,00000011,11111111", "0,4,8,12,16,20,24,28,32,36"},
		{"80000000,00000000", "63"},
		{strings.Repeat("00000000,", 255) + "00000003", "0-1"}, // of a kernel for 8,192 CPUs
		{"80000000" + strings.Repeat(",00000000", 31), "1023"},
	} {
		got, err := parseMask(test.mask)
		if err != nil || got.String() != test.want {
			t.Errorf("parseMask(%q) = %q, %v, want %q", test.mask, got, err, test.want)
		}
	}
	if _, err := parseMask("1" + strings.Repeat(",00000000", 32)); !errors.Is(err, cpuset.ErrOutOfRange) {
		t.Errorf("CPU 1024: error %v, want ErrOutOfRange", err)
	}
	for _, mask := range []string{"", ",", "g", "123456789", "1,1", "-1", "+1", " 1", "0x1", "00000001,", ",00000001"} {
		if got, err := parseMask(mask); err == nil {
			t.Errorf("parseMask(%q) = %q, want an error", mask, got)
		}
	}
}

func TestParseMemTotal(t *testing.T) {
	const text = "Node 3 MemTotal:       131062408 kB\nNode 3 MemFree:        129054364 kB\n"
	if got, err := parseMemTotal(text); err != nil || got != 131062408*1024 {
		t.Errorf("got %d, %v", got, err)
	}
	for _, text := range []string{"", "Node 0 MemFree: 1 kB", "Node 0 MemTotal:", "Node 0 MemTotal: 1", "Node 0 MemTotal: -1 kB",
		"Node 0 MemTotal: 1 kB 2", fmt.Sprintf("Node 0 MemTotal: %d kB", uint64(math.MaxUint64/1024+1))} {
		if got, err := parseMemTotal(text); err == nil {
			t.Errorf("parseMemTotal(%q) = %d, want an error", text, got)
		}
	}
}

// printMask formats a set as the kernel formats a bitmap of 1,024 bits.
func printMask(s cpuset.Set) string {
	var words []string
	for word := cpuset.MaxCPUs/32 - 1; word >= 0; word-- {
		bits := uint32(0)
		for bit := range 32 {
			if s.Contains(cpuset.CPU(32*word + bit)) {
				bits |= 1 << bit
			}
		}
		words = append(words, fmt.Sprintf("%08x", bits))
	}
	return strings.Join(words, ",")
}

func FuzzParsers(f *testing.F) {
	for _, seed := range []string{"0", "-1", "fffff", "0000,00000011,11111111", "10 21 16", "Unified", "0-3,8",
		"Node 0 MemTotal: 16777216 kB", "18446744073709551616", "4294967296"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseMask(text); err == nil {
			if again, err := parseMask(printMask(s)); err != nil || again != s {
				t.Errorf("mask %q: printed and read again it is %q, %v, not %q", text, again, err, s)
			}
		}
		if id, err := parseID(text); err == nil && (id < -1 || id > math.MaxInt32) {
			t.Errorf("id %q is %d", text, id)
		}
		if row, err := parseDistances(text); err == nil {
			for _, d := range row {
				if d < 0 || d > math.MaxUint16 {
					t.Errorf("distances %q have %d", text, d)
				}
			}
			if len(row) != len(strings.Fields(text)) {
				t.Errorf("distances %q are %v", text, row)
			}
		}
		if bytes, err := parseMemTotal(text); err == nil && bytes%1024 != 0 {
			t.Errorf("memory %q is %d bytes", text, bytes)
		}
		if nodes, err := parseNodes(text); err == nil {
			for i, n := range nodes {
				if n < 0 || i > 0 && n <= nodes[i-1] {
					t.Errorf("nodes %q are %v", text, nodes)
				}
			}
		}
		if kind, err := parseCacheType(text); err == nil && string(kind) != text {
			t.Errorf("cache type %q is %q", text, kind)
		}
	})
}
