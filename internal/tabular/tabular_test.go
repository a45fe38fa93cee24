package tabular

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
)

func TestParseTime(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 100e6, time.UTC)
	const ms, us = time.Millisecond, time.Microsecond
	for text, want := range map[string]time.Duration{ // the resolution
		"2026-03-01T12:00:00.1Z": 100 * ms, "2026-03-01 12:00:00.100+00:00": ms, "2026-03-01 12:00:00.1+00": 100 * ms,
		"2026-03-01T12:00:00.100000000+0000": 1, "2026-03-01T12:00:00.100": ms, " 2026-03-01 12:00:00.1 ": 100 * ms,
		"2026-03-01 13:00:00.1+01:00": 100 * ms, "2026-03-01 08:30:00.1-0330": 100 * ms, "2026-03-01 17:30:00,100 +05:30": ms,
		"2026-03-01 12:00:00.100000 UTC": us, "2026-03-01T12:00:00.100000 +0000": us, "2026-03-01 12:00:00.10000000000000Z": 1,
		"1772366400.1": 100 * ms, "1772366400100": ms, "1772366400100000": us, "1772366400100000000": 1,
		"1772366400100.000": us, "1.7723664001e9": 100 * ms, "1772366400.100000000000": 1, "1.7723664001E+18": 100 * ms,
		"1.77236640010000006E+18": 256,
	} {
		ns, resolution, err := ParseTime(text)
		if ns-at.UnixNano() != 0 && (!strings.ContainsAny(text, "eE") || math.Abs(float64(ns-at.UnixNano())) > 250) {
			t.Errorf("%q is %v", text, time.Unix(0, ns).UTC())
		}
		if err != nil || resolution != want {
			t.Errorf("%q: resolution %v, want %v; %v", text, resolution, want, err)
		}
	}
	for text, want := range map[string]struct {
		time       time.Time
		resolution time.Duration
	}{
		"2026-03-01": {at.Truncate(time.Hour).Add(-12 * time.Hour), 24 * time.Hour}, "2026-03-01 12:00": {at.Truncate(time.Second), time.Minute},
		"-1.5": {time.Unix(-2, 500e6), 100 * ms}, "0": {time.Unix(0, 0), time.Second}, "1772366400": {at.Truncate(time.Second), time.Second},
		"1.7723664E+18": {at.Truncate(time.Second), 100 * time.Second},
	} {
		if ns, resolution, err := ParseTime(text); err != nil || ns != want.time.UnixNano() || resolution != want.resolution {
			t.Errorf("%q is %v, resolution %v, %v", text, time.Unix(0, ns).UTC(), resolution, err)
		}
	}
	for text, want := range map[string]string{
		"yesterday": "want a time such as 2026-03-01T12:00:00.1Z", "": "want a time", "01.03.2026 12:00": "want a time",
		"03/01/2026": "want a time", "1772366400,1": "want a time", "2026-02-30T00:00:00Z": "want a time",
		"0001-01-01T00:00:00Z": "out of range", "1e300": "out of range", "9223372036.9": "out of range", "-9223372036.9": "out of range", "99999999999999999999": "out of range", "1-2": "want a time",
	} {
		_, _, err := ParseTime(text)
		plain(t, text, err, want)
	}
}

func TestParseInt(t *testing.T) {
	for text, want := range map[string]int64{
		"50000000": 5e7, "50000000.0": 5e7, "5e7": 5e7, "5E+07": 5e7, " 5 ": 5, "+5": 5, "-1.0": -1, "9007199254740993.00": 1<<53 + 1,
		"32190870.5": 32190871, "2999999.9999999995": 3e6, "5.": 5, "9223372036854775807": math.MaxInt64,
	} {
		if n, err := ParseInt(text); err != nil || n != want {
			t.Errorf("%q is %d, %v", text, n, err)
		}
	}
	for text, want := range map[string]string{
		"x": "want a whole number, such as 50000000", "0.5": "want a whole number", "10.5": "want a whole number", "50000000,0": "without commas",
		"50,000,000": "without commas", "1e30": "too large", "9223372036854775808": "too large", "0x10": "whole number", "1_000": "whole number",
		"Inf": "whole number", "1e999": "too large", strings.Repeat("9", 400): "too large", "true": "whole number", "--5": "whole number",
	} {
		_, err := ParseInt(text)
		plain(t, text, err, want)
	}
}

func TestParseBool(t *testing.T) {
	for text, want := range map[string]bool{"true": true, "True": true, "TRUE": true, "1": true, "1.0": true, "false": false, "False": false, "0": false, "0.0": false} {
		if b, err := ParseBool(text); err != nil || b != want {
			t.Errorf("%q is %v, %v", text, b, err)
		}
	}
	for _, text := range []string{"", "2", "maybe"} {
		_, err := ParseBool(text)
		plain(t, text, err, "want true or false")
	}
}

// plain checks that an error says what is wanted, in the package's own words.
func plain(t *testing.T, text string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%.40q: error %v, want %q", text, err, want)
		return
	}
	for _, foreign := range []string{"strconv", "parsing", "2006", "invalid syntax", "csv:", "parse error", "gzip", "EOF"} {
		if strings.Contains(err.Error(), foreign) {
			t.Errorf("%.40q: the error has words of a library: %v", text, err)
		}
	}
}

func TestReader(t *testing.T) {
	for text, want := range map[string][]string{
		"a,b\n1,2\n": {"1", "2"}, "a;b\r\n1,5;2\r\n": {"1,5", "2"}, "a\tb\n1\t2": {"1", "2"}, "a|b\n1|2": {"1", "2"},
		"\ufeff\"a\",\"b\"\n\"1\",\"2\"\n": {"1", "2"}, " a , b \n1,2\n": {"1", "2"}, "a,b\n,\n\n1,2\n,\n": {"1", "2"}, "\ufeffa;b\n1;2": {"1", "2"},
	} {
		r, err := NewReader(strings.NewReader(text), "a", "b")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got, err := r.Read()
		if err != nil || !slices.Equal(got, want) || !slices.Equal(r.Names, []string{"a", "b"}) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
		if _, err := r.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("%q: %v at the end", text, err)
		}
	}
	for text, want := range map[string]string{
		"b,c\n": `no column "a" in the first line`, "a,b,a\n": `column "a" appears twice`, "\xff\xfea\x00,\x00b\x00": "iconv -f UTF-16",
		"a,b\n1\n": "line 2 has 1 fields, and the first line has 2 (separated by ',')", "a,b\n\"1,2\n": "line 2: a quotation mark", "a,b\n1,x\"y\n": "line 2: a quotation mark",
	} {
		r, err := NewReader(strings.NewReader(text), "a", "b")
		if err == nil {
			_, err = r.Read()
		}
		plain(t, text, err, want)
	}
	if _, err := NewReader(strings.NewReader(""), "a"); !errors.Is(err, io.EOF) {
		t.Errorf("no content: %v", err)
	}
}

func TestDecompress(t *testing.T) {
	text := bytes.Repeat([]byte("a,b\n1,2\n"), 1000)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	must.Get(z.Write(text))(t)
	must.Do(t, z.Close())
	// The output of bzip2 1.0.8, which Go cannot write.
	bzip2 := must.Get(hex.DecodeString("425a68393141592653597b45016a000dabd900001000043000300020005060026aa1936a419520ca906d4832a41b520e54839520f8bb9229c28483da280b50"))(t)
	for name, packed := range map[string][]byte{"plain": text, "gzip": zipped.Bytes(), "bzip2": bzip2} {
		want := name != "plain"
		got, compressed, err := unpack(packed)
		if err != nil || compressed != want || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, %v, %v", name, len(got), compressed, err)
		}
		if want {
			_, _, err = unpack(packed[:len(packed)/2])
			plain(t, name, err, "the compressed file is damaged, or was cut short")
		}
	}
	_, _, err := unpack([]byte("PK\x03\x04..."))
	plain(t, "zip", err, "a ZIP archive or a spreadsheet")
	_, _, err = unpack([]byte("\x1f\x8b"))
	plain(t, "half", err, "damaged")
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 128 {
		must.Get(w.Write(zeros))(t)
	}
	must.Do(t, w.Close())
	got, _, err := unpack(bomb.Bytes())
	plain(t, "bomb", err, "more than 64 times its size")
	if most := maxContent + maxContentPerByte*bomb.Len(); len(got) > most {
		t.Errorf("%d bytes of a bomb of %d, want at most %d", len(got), bomb.Len(), most)
	}
}

func unpack(file []byte) (content []byte, compressed bool, err error) {
	in, compressed, err := Decompress(bytes.NewReader(file), int64(len(file)))
	if err == nil {
		content, err = io.ReadAll(in)
	}
	return content, compressed, err
}

// TestReadError: an error of the disk stays what it is.
func TestReadError(t *testing.T) {
	f := must.Get(os.Open(t.TempDir()))(t)
	defer f.Close()
	if _, err := NewReader(f, "a"); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("error %v", err)
	}
}

// FuzzTime: a time that is accepted is the same when it is written in full.
func FuzzTime(f *testing.F) {
	for _, text := range []string{"2026-03-01 12:00:00.1+00", "1772366400.1", "-1.5e3", "2026-03-01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ns, resolution, err := ParseTime(text)
		if err != nil {
			return
		}
		if resolution < 1 {
			t.Errorf("%q has the resolution %v", text, resolution)
		}
		if again, _, err := ParseTime(time.Unix(0, ns).UTC().Format(time.RFC3339Nano)); err != nil || again != ns {
			t.Errorf("%q is %d, and %d again, %v", text, ns, again, err)
		}
	})
}

// FuzzInt: a number that is accepted is that of its text, but for rounding.
func FuzzInt(f *testing.F) {
	for _, text := range []string{"5", "5e7", "50000000.0", "-9223372036854775808.000"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseInt(text)
		if err != nil {
			return
		}
		if want, err := parseDecimal(strings.TrimSpace(text)); err != nil || math.Abs(float64(n)-want) > rounding*math.Abs(want) {
			t.Errorf("%q is %d, want %v, %v", text, n, want, err)
		}
	})
}

// FuzzReader: arbitrary content has at most as many fields as bytes.
func FuzzReader(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n"))
	f.Add([]byte("\ufeffa;b\r\n\"1\";2"))
	f.Fuzz(func(t *testing.T, file []byte) {
		in, _, err := Decompress(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		r, err := NewReader(in, "a")
		for err == nil {
			var texts []string
			if texts, err = r.Read(); err == nil && len(texts) != len(r.Names) {
				t.Errorf("%d fields of %d", len(texts), len(r.Names))
			}
		}
	})
}
