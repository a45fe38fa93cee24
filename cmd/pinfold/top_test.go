//go:build linux

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/report/top"
)

func TestParseKeys(t *testing.T) {
	for text, want := range map[string][]top.Key{
		"":                            nil,
		"qj\x03":                      {'q', 'j', 3},
		"\x1b[A\x1b[B\x1bOA\x1bOB":    {top.KeyUp, top.KeyDown, top.KeyUp, top.KeyDown},
		"\x1b[5~\x1b[6~n\x1b[H\x1b[F": {top.KeyPageUp, top.KeyPageDown, 'n', top.KeyHome, top.KeyEnd},
		"\x1b[1;5Cq\x1b[3~\x1b[200~x": {'q', 'x'}, // ctrl-right, delete, and a paste
		"\x1b":                        {0x1b},
		"\x1b[":                       {0x1b, '['},
		"\x1b[12":                     nil, // cut off
	} {
		if diff := cmp.Diff(want, parseKeys(text)); diff != "" {
			t.Errorf("%q: -want +got:\n%s", text, diff)
		}
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add("\x1b[5~q\x1bOA")
	f.Fuzz(func(t *testing.T, text string) {
		if keys := parseKeys(text); len(keys) > len(text) {
			t.Errorf("%d keys in %q", len(keys), text)
		}
	})
}

func TestParseLogLink(t *testing.T) {
	for link, want := range map[string]string{
		"web-7d9f_shop_nginx-proxy-abc123.log": "abc123 shop/web-7d9f/nginx-proxy",
		"web_shop_nginx-abc123":                "",
		"web_shop_nginx.log":                   "",
		"web_shop_-abc.log":                    "",
		"web_shop_nginx-.log":                  "",
		"web_nginx-abc.log":                    "",
		"_shop_nginx-abc.log":                  "",
		"web__nginx-abc.log":                   "",
		"a_b_c_d-e.log":                        "",
		"":                                     "",
	} {
		got := ""
		if id, name, ok := parseLogLink(link); ok {
			got = id + " " + name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}
