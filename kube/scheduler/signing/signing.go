// Package signing encodes and signs the allocations of a scheduler, and knows which ones it
// accepts.
package signing

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/kube/api"
)

// Files are the paths of key files in the plugin's arguments.
type Files struct{ SigningKey, VerifyKeys string }

// Signer encodes allocations. Without a key, allocations are not signed, and all are accepted.
type Signer struct {
	// Keys are those of accepted allocations; nil accepts all.
	Keys  *api.Keys
	files Files // from which it was created
	key   ed25519.PrivateKey
	// last is the latest decision time issued or seen, in nanoseconds of Unix time.
	last atomic.Int64
}

// New reads the key files.
func New(ctx context.Context, files Files) (*Signer, error) {
	s := &Signer{files: files}
	switch {
	case files.SigningKey == "" && files.VerifyKeys != "":
		return nil, errors.New("verifyKeys without signingKey: this scheduler's own allocations would not be accepted; set both or neither")
	case files.SigningKey == "":
		klog.FromContext(ctx).Info("Allocations are not signed, so everyone who may write pod annotations can write allocations; " +
			"set signingKey in the arguments of the plugin (docs/scheduler.md)")
		return s, nil
	}
	var err error
	if s.key, err = readKeys("signingKey", files.SigningKey, api.ParsePrivateKey); err != nil {
		return nil, err
	}
	public := []ed25519.PublicKey{s.key.Public().(ed25519.PublicKey)}
	if files.VerifyKeys != "" {
		others, err := readKeys("verifyKeys", files.VerifyKeys, api.ParsePublicKeys)
		if err != nil {
			return nil, err
		}
		public = append(public, others...)
	}
	s.Keys = api.NewKeys(public...)
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

// Agrees returns an error if another profile names other files. All profiles decide about the same
// nodes.
func (s *Signer) Agrees(other Files) error {
	if other != s.files {
		return fmt.Errorf("signingKey %q and verifyKeys %q differ from those of another profile, %q and %q: all profiles need the same",
			other.SigningKey, other.VerifyKeys, s.files.SigningKey, s.files.VerifyKeys)
	}
	return nil
}

// unsignedRank ranks the claims of assumed pods after those of bound pods and before those of
// nominated pods. Signed allocations are ranked by the time of the decision instead.
const unsignedRank = math.MaxInt64 - 1

// Write sets the decision time and returns the annotation's text and the claim's rank.
func (s *Signer) Write(pod types.UID, a api.Allocation) (text string, rank int64) {
	a.Time = s.now()
	if s.Keys == nil {
		return a.Encode(), unsignedRank
	}
	text = a.Sign(pod, s.key)
	s.Keys.MarkVerified(pod, text)
	return text, a.Rank()
}

// now returns a decision time. Of two conflicting signed allocations the later one wins, so the
// time is later than all that this scheduler has issued or seen, even if the clock was set back or
// the clocks of replicas differ.
func (s *Signer) now() time.Time {
	for now := time.Now().UnixNano(); ; {
		last := s.last.Load()
		next := max(now, last+1)
		if s.last.CompareAndSwap(last, next) {
			return time.Unix(0, next).UTC()
		}
	}
}

// Saw records the rank of a claim, which is the negative decision time if it is signed.
func (s *Signer) Saw(rank int64) {
	if s.Keys == nil {
		return
	}
	for last := s.last.Load(); -rank > last && !s.last.CompareAndSwap(last, -rank); {
		last = s.last.Load()
	}
}
