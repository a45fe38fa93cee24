package workload

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"
)

func TestHandler(t *testing.T) {
	for _, test := range []struct {
		target string
		size   int
		status int
		bytes  int
	}{
		{"/", 615, http.StatusOK, 615},
		{"/any/path?cpu=1ms", 1024, http.StatusOK, 1024},
		{"/?cpu=11s", 615, http.StatusBadRequest, -1},
		{"/?cpu=-1ms", 615, http.StatusBadRequest, -1},
		{"/?cpu=much", 615, http.StatusBadRequest, -1},
		{"/", 0, http.StatusOK, len(page(0))},
		{"/?hash=1000000", 615, http.StatusOK, 615},
		{"/?hash=-1", 615, http.StatusBadRequest, -1},
		{"/?hash=2000000000", 615, http.StatusBadRequest, -1},
	} {
		answer := httptest.NewRecorder()
		Server{Size: test.size}.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, test.target, nil))
		if answer.Code != test.status || (test.bytes >= 0 && answer.Body.Len() != test.bytes) {
			t.Errorf("GET %s: status %d, %d bytes; want %d, %d", test.target, answer.Code, answer.Body.Len(), test.status, test.bytes)
		}
	}
}

func TestBurnUsesTheAmount(t *testing.T) {
	const amount = 20 * time.Millisecond
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := time.Duration(0)
	for range 20 { // a virtual CPU that stands still goes on using time
		begin := threadTime()
		Burn(amount)
		if used = threadTime() - begin; used >= amount && used < 2*amount {
			return
		}
	}
	t.Errorf("used %v of CPU time, want %v", used, amount)
}
