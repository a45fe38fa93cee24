package filewatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pinfold.dev/pinfold/test/must"
)

// A change is used once two readings have found it. A file that is missing, too large or refused
// leaves what is in use, and is reported until it is right again.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		write := func(text string) { must.Do(t, os.WriteFile(path, []byte(text), 0o600)) }
		write("one")
		events := make(chan string, 10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go File{[]string{path}, []byte("one"), func(text []byte) error {
			if strings.HasPrefix(string(text), "bad") {
				return errors.New("refused " + string(text))
			}
			events <- string(text)
			return nil
		}, func(err error) { events <- fmt.Sprint(err) }}.Watch(ctx, time.Second)
		time.Sleep(time.Second / 2)
		want := func(lines ...string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			var got []string
			for len(events) > 0 {
				line, _, _ := strings.Cut(<-events, ": ")
				if strings.HasPrefix(line, "open ") {
					line = "open"
				}
				got = append(got, line)
			}
			if !slices.Equal(got, lines) {
				t.Fatalf("got %q, want %q", got, lines)
			}
		}
		want("<nil>")
		write("tw")
		want() // being written
		write("two")
		want()
		want("two", "<nil>")
		want("<nil>")
		write("bad")
		want()
		want("refused bad")
		want("refused bad")
		write("two") // back
		want("<nil>")
		must.Do(t, os.Remove(path))
		want("open")
		write("two")
		want("<nil>")
		write(strings.Repeat("x", maxSize+1))
		want(path + " has more than 1048576 bytes")
		write("three")
		want()
		want("three", "<nil>")
	})
}
