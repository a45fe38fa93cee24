package logtext

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestLog(t *testing.T) {
	var l Log
	const writers, lines = 4, 100
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for line := range lines {
				fmt.Fprintf(&l, "writer %d line %d.\n", writer, line)
				if err := l.Says(fmt.Sprintf("writer %d line %d.", writer, line)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if got := strings.Count(l.String(), "\n"); got != writers*lines {
		t.Errorf("%d lines, want %d", got, writers*lines)
	}
	if err := l.Says("line 100."); err == nil {
		t.Error("no error for a text that was not written")
	}
}
