//go:build linux

package top

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/report/terminal"
	"pinfold.dev/pinfold/report/top"
)

// live is the table on a terminal.
type live struct {
	watch   *watch
	sampler *sampler.Sampler
	keys    *os.File
	screen  *os.File

	mu    sync.Mutex // protects model
	model *top.Model
}

const (
	redrawEvery = 500 * time.Millisecond
	listEvery   = time.Second
)

// Control sequences (ECMA-48, and xterm's alternate screen).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // hides the cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTopLeft   = "\x1b[H"
	clearLine   = "\x1b[K"
)

// run draws until a key or the context ends it, and restores the terminal.
func (l *live) run(ctx context.Context) error {
	before, err := term.MakeRaw(int(l.keys.Fd()))
	if err != nil {
		return fmt.Errorf("read keys one by one: %w: use --once", err)
	}
	defer func() {
		fmt.Fprint(l.screen, leaveScreen)
		_ = term.Restore(int(l.keys.Fd()), before) // fails only if the terminal is gone
	}()
	fmt.Fprint(l.screen, enterScreen)

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
	pressed := readKeys(l.keys)
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
	width, height, err := term.GetSize(int(l.screen.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	cost := l.sampler.Cost()
	l.mu.Lock()
	l.model.Status.Share, l.model.Status.Late, l.model.Status.Missed = cost.Share(), cost.Late, cost.Missed
	l.model.Rename(l.watch.name)
	l.model.SetWaits(l.watch.wait)
	text := l.model.Draw(top.Size{Width: width, Height: height, Colour: terminal.MapOptions(l.screen, os.Getenv).Colour})
	l.mu.Unlock()
	if _, err := l.screen.WriteString(overwriting(text)); err != nil {
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
func readKeys(from *os.File) <-chan top.Key {
	pressed := make(chan top.Key)
	go func() {
		defer close(pressed)
		var buffer [64]byte
		for {
			n, err := from.Read(buffer[:])
			for _, k := range parseKeys(string(buffer[:n])) {
				pressed <- k
			}
			if err != nil || n == 0 {
				return
			}
		}
	}()
	return pressed
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
