//go:build linux

package groups

import "testing"

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
