package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestCauseComesFirst checks that the message starts with the cause, wherever it is in the log.
func TestCauseComesFirst(t *testing.T) {
	noise := strings.Repeat("I1122 11:00:00.000000   17 flags.go:64] FLAG: --x=\"y\"\n", 20)
	for name, c := range map[string]struct{ log, want string }{
		"klog":  {noise + "E1122 11:00:01.5   17 run.go:72] \"command failed\" err=\"no cheese\"\n" + noise[:60], `: "command failed" err="no cheese"; the end of its log `},
		"etcd":  {noise + `{"level":"fatal","msg":"failed","error":"no cheese"}` + "\n", `: {"level":"fatal","msg":"failed","error":"no cheese"}; the`},
		"panic": {noise + "panic: no cheese\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:3 +0x1d\n", ": panic: no cheese; the"},
		"long":  {strings.Repeat("x", 20000) + "\npanic: no cheese\n", ": panic: no cheese; the"},
		"plain": {"one\nno cheese\n", ": no cheese; the"},
		"full":  {noise + "panic: write wal: no space left on device\n\ngoroutine 1 [running]:\n\t/x/main.go:3 +0x1d\n", ": the disk of "},
		"empty": {"", ": ; the"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		must.Do(t, os.WriteFile(path, []byte(c.log), 0o600))
		if got := logTail(path); !strings.HasPrefix(got, c.want) || len(got) > 2000 || strings.Contains(got, "goroutine") {
			t.Errorf("%s: %q, want %q first, not too much, and no stack", name, got, c.want)
		}
	}
}
