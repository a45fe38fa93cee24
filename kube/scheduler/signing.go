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

// signing encodes allocations and determines which allocations are accepted. Without a key,
// allocations are not signed, and all are accepted.
type signing struct {
	args Args // from which it was created
	key  ed25519.PrivateKey
	keys *api.Keys // nil accepts all allocations
	// last is the latest decision time issued or seen, in nanoseconds of Unix time.
	last atomic.Int64
}

// newSigning reads the key files that the arguments name.
func newSigning(ctx context.Context, args Args) (*signing, error) {
	s := &signing{args: args}
	switch {
	case args.SigningKey == "" && args.VerifyKeys != "":
		return nil, errors.New("verifyKeys without signingKey: this scheduler's own allocations would not be accepted; set both or neither")
	case args.SigningKey == "":
		klog.FromContext(ctx).Info("Allocations are not signed, so everyone who may write pod annotations can write allocations; " +
			"set signingKey in the arguments of the plugin (docs/scheduler.md)")
		return s, nil
	}
	var err error
	if s.key, err = readKeys("signingKey", args.SigningKey, api.ParsePrivateKey); err != nil {
		return nil, err
	}
	public := []ed25519.PublicKey{s.key.Public().(ed25519.PublicKey)}
	if args.VerifyKeys != "" {
		others, err := readKeys("verifyKeys", args.VerifyKeys, api.ParsePublicKeys)
		if err != nil {
			return nil, err
		}
		public = append(public, others...)
	}
	s.keys = api.NewKeys(public...)
	return s, nil
}

func readKeys[T any](argument, path string, parse func([]byte) (T, error)) (keys T, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		keys, err = parse(text)
	}
	if err != nil {
		return keys, fmt.Errorf("%s %s: %w", argument, path, err)
	}
	return keys, nil
}

// agrees returns an error if the arguments of another profile name other keys. All profiles decide
// about the same nodes.
func (s *signing) agrees(args Args) error {
	if args.SigningKey != s.args.SigningKey || args.VerifyKeys != s.args.VerifyKeys {
		return fmt.Errorf("signingKey %q and verifyKeys %q differ from those of another profile, %q and %q: all profiles need the same",
			args.SigningKey, args.VerifyKeys, s.args.SigningKey, s.args.VerifyKeys)
	}
	return nil
}

// write sets the decision time and returns the annotation's text and the claim's rank.
func (s *signing) write(pod types.UID, a api.Allocation) (text string, rank int64) {
	a.Time = s.now()
	if s.keys == nil {
		return a.Encode(), assumedRank
	}
	text = a.Sign(pod, s.key)
	s.keys.MarkVerified(pod, text)
	return text, a.Rank()
}

// now returns a decision time. Of two conflicting signed allocations the later one wins, so the
// time is later than all that this scheduler has issued or seen, even if the clock was set back or
// the clocks of replicas differ.
func (s *signing) now() time.Time {
	for now := time.Now().UnixNano(); ; {
		last := s.last.Load()
		next := max(now, last+1)
		if s.last.CompareAndSwap(last, next) {
			return time.Unix(0, next).UTC()
		}
	}
}

// saw records the rank of a signed claim, which is the negative decision time.
func (s *signing) saw(rank int64) {
	for last := s.last.Load(); -rank > last && !s.last.CompareAndSwap(last, -rank); {
		last = s.last.Load()
	}
}
