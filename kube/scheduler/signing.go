package scheduler

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/kube/api"
)

// signing writes allocations down and says which count. Without a key, allocations are
// not signed, and all count.
type signing struct {
	args Args // from which it was made
	key  ed25519.PrivateKey
	keys *api.Keys // nil believes every allocation
	// last is the latest time of decision given or seen, in nanoseconds of Unix time.
	last atomic.Int64
}

// newSigning reads the key files that the arguments name.
func newSigning(ctx context.Context, args Args) (*signing, error) {
	s := &signing{args: args}
	switch {
	case args.SigningKey == "" && args.VerifyKeys != "":
		return nil, errors.New("verifyKeys without signingKey: this scheduler's own allocations would not count; give both or none")
	case args.SigningKey == "":
		klog.FromContext(ctx).Info("Allocations are not signed, so whoever may write annotations of pods can write allocations; " +
			"set signingKey in the arguments of the plugin (docs/scheduler.md)")
		return s, nil
	}
	text, err := os.ReadFile(args.SigningKey)
	if err == nil {
		s.key, err = api.ParsePrivateKey(text)
	}
	if err != nil {
		return nil, fmt.Errorf("signingKey %s: %w", args.SigningKey, err)
	}
	public := []ed25519.PublicKey{s.key.Public().(ed25519.PublicKey)}
	if args.VerifyKeys != "" {
		text, err := os.ReadFile(args.VerifyKeys)
		var others []ed25519.PublicKey
		if err == nil {
			others, err = api.ParsePublicKeys(text)
		}
		if err != nil {
			return nil, fmt.Errorf("verifyKeys %s: %w", args.VerifyKeys, err)
		}
		public = append(public, others...)
	}
	s.keys = api.NewKeys(public...)
	return s, nil
}

// agrees reports whether the arguments of another profile name the same keys: all profiles
// decide about the same nodes.
func (s *signing) agrees(args Args) error {
	if args.SigningKey != s.args.SigningKey || args.VerifyKeys != s.args.VerifyKeys {
		return fmt.Errorf("signingKey %q and verifyKeys %q differ from those of another profile, %q and %q: all profiles need the same",
			args.SigningKey, args.VerifyKeys, s.args.SigningKey, s.args.VerifyKeys)
	}
	return nil
}

// write dates a decision and returns the text of the annotation and the rank of the claim.
func (s *signing) write(pod types.UID, a api.Allocation) (text string, rank int64) {
	a.Time = s.now()
	if s.keys == nil {
		return a.Encode(), assumedRank
	}
	text = a.Sign(pod, s.key)
	s.keys.MarkVerified(pod, text)
	return text, a.Rank()
}

// now is a time of decision. Of signed allocations the later one wins, so it is later than
// all that this scheduler has given or seen, although clocks are set back and those of
// replicas differ.
func (s *signing) now() time.Time {
	for now := time.Now().UnixNano(); ; {
		last := s.last.Load()
		next := max(now, last+1)
		if s.last.CompareAndSwap(last, next) {
			return time.Unix(0, next).UTC()
		}
	}
}

// saw is called with the rank of a signed claim.
func (s *signing) saw(rank int64) {
	for last := s.last.Load(); -rank > last && !s.last.CompareAndSwap(last, -rank); {
		last = s.last.Load()
	}
}
