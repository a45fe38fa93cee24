//go:build linux

package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/report/top"
)

// live is the table on a terminal.
type live struct {
	watch   *watch
	sampler *sampler.Sampler
	keys    io.Reader
	screen  io.Writer
	size    func() top.Size

	mu    sync.Mutex // protects model, and what size returns for a remote screen
	model *top.Model
}

const (
	redrawEvery = 500 * time.Millisecond
	listEvery   = time.Second
)

// Control sequences (ECMA-48).
const (
	toTopLeft = "\x1b[H"
	clearLine = "\x1b[K"
)

// run draws until a key, the end of the keys, or the context ends it.
func (l *live) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 2)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	working.Go(func() { failed <- l.sampler.Run(ctx, l.consume) })
	working.Go(func() { failed <- l.sampler.Follow(ctx, listEvery, l.watch.list) })
	return l.loop(ctx, failed)
}

func (l *live) loop(ctx context.Context, failed <-chan error) error {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	redraw := time.NewTicker(redrawEvery)
	defer redraw.Stop()
	pressed := l.readKeys()
	for {
		if err := l.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case k, open := <-pressed:
			if !open || l.press(k) {
				return nil
			}
		case <-resized:
		case <-redraw.C:
		}
	}
}

func (l *live) consume(tick *sampler.Tick) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	take(l.model, tick)
	return nil
}

func (l *live) press(k top.Key) (quit bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.model.Press(k)
}

func (l *live) draw() error {
	cost := l.sampler.Cost()
	l.mu.Lock()
	l.model.Status.Share, l.model.Status.Late, l.model.Status.Missed = cost.Share(), cost.Late, cost.Missed
	l.model.Rename(l.watch.name)
	l.model.SetWaits(l.watch.wait)
	text := l.model.Draw(l.size())
	l.mu.Unlock()
	if _, err := io.WriteString(l.screen, overwriting(text)); err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	return nil
}

// overwriting returns lines so that they replace what the terminal shows. Each line is cleared
// before it is written: after a line of full width, clearing would remove its last character. The
// last line has no end, which would scroll. There are as many lines as the terminal has.
func overwriting(lines string) string {
	return toTopLeft + clearLine + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\r\n"+clearLine)
}

// readKeys reads keys until the terminal is closed. Its goroutine lives until the process ends,
// since a read from a terminal cannot be cancelled.
func (l *live) readKeys() <-chan top.Key {
	pressed := make(chan top.Key)
	go func() {
		defer close(pressed)
		var buffer [4096]byte
		for {
			n, err := l.keys.Read(buffer[:])
			for _, k := range parseKeys(l.resize(string(buffer[:n]))) {
				pressed <- k
			}
			if err != nil || n == 0 {
				return
			}
		}
	}()
	return pressed
}

// newSize is how a remote terminal tells its size, between keys: as xterm reports it, in lines and
// columns.
var newSize = regexp.MustCompile(`\x1b\[8;(\d{1,5});(\d{1,5})t`)

// resize takes new sizes of a remote screen out of what the terminal sends.
func (l *live) resize(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range newSize.FindAllStringSubmatch(text, -1) {
		screen := &l.watch.screen
		screen.Height, _ = strconv.Atoi(m[1])
		screen.Width, _ = strconv.Atoi(m[2])
	}
	return newSize.ReplaceAllString(text, "")
}

// parseKeys parses what a terminal sends for keys: characters and escape sequences. Unknown
// sequences are ignored.
func parseKeys(text string) (keys []top.Key) {
	known := map[string]top.Key{
		"\x1b[A": top.KeyUp, "\x1b[B": top.KeyDown, "\x1b[5~": top.KeyPageUp, "\x1b[6~": top.KeyPageDown,
		"\x1b[H": top.KeyHome, "\x1b[F": top.KeyEnd, "\x1bOA": top.KeyUp, "\x1bOB": top.KeyDown,
		"\x1bOH": top.KeyHome, "\x1bOF": top.KeyEnd,
	}
	for text != "" {
		n := keyLength(text)
		if k, ok := known[text[:n]]; ok {
			keys = append(keys, k)
		} else if n == 1 {
			keys = append(keys, top.Key(text[0]))
		}
		text = text[n:]
	}
	return keys
}

// keyLength returns the length of the first key. An escape sequence ends with a letter or "~".
func keyLength(text string) int {
	if len(text) < 3 || text[0] != '\x1b' || text[1] != '[' && text[1] != 'O' {
		return 1
	}
	end := strings.IndexFunc(text[2:], func(r rune) bool { return r == '~' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' })
	if end < 0 {
		return len(text)
	}
	return 2 + end + 1
}
