package signing

import (
	"strings"
	"testing"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/signing/signingtest"
)

// Key files are read when the scheduler starts, and errors name them.
func TestSigningFiles(t *testing.T) {
	key, public := signingtest.KeyFiles(t)
	for _, test := range []struct {
		files Files
		err   string
	}{
		{Files{}, ""},
		{Files{SigningKey: key}, ""},
		{Files{SigningKey: key, VerifyKeys: public}, ""},
		{Files{VerifyKeys: public}, "verifyKeys without signingKey"},
		{Files{SigningKey: "/no/such/file"}, "signingKey /no/such/file: open"},
		{Files{SigningKey: public}, "signingKey " + public + ": it holds no private key"},
		{Files{SigningKey: key, VerifyKeys: key}, "verifyKeys " + key + ": it holds a \"PRIVATE KEY\""},
	} {
		s, err := New(t.Context(), test.files)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%+v: %v, want %s", test.files, err, test.err)
			}
			continue
		}
		if err != nil || (s.Keys == nil) != (test.files.SigningKey == "") {
			t.Errorf("%+v: %v, %v", test.files, s, err)
		}
		if err := s.Agrees(Files{SigningKey: "other"}); err == nil {
			t.Errorf("%+v: another profile with another key was accepted", test.files)
		}
	}
}

// Decision times increase even if the clock is behind another replica's.
func TestDecisionTimesIncrease(t *testing.T) {
	s := &Signer{Keys: api.NewKeys()}
	last := s.now()
	s.Saw(-last.Add(1e12).UnixNano()) // a replica whose clock is ahead
	for range 1000 {
		next := s.now()
		if !next.After(last) {
			t.Fatalf("%v is not after %v", next, last)
		}
		last = next
	}
}
