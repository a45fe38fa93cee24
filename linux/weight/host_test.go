package weight

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// raiseWord is the first argument of this test as a process that raises the weight of a group.
const raiseWord = "raise"

func TestMain(m *testing.M) {
	if status, ok := Helper(os.Args[1:]); ok {
		os.Exit(status)
	}
	if len(os.Args) == 3 && os.Args[1] == raiseWord {
		raiseForever(os.Args[2])
	}
	cgrouptest.Main(m)
}

// raiseForever raises the weight of a group, and prints the id of the helper.
func raiseForever(group string) {
	fs, err := cgroup.OpenUsage("/")
	if err == nil {
		var r *Raised
		if r, err = Raise(fs, []string{group}, os.Stderr); err == nil {
			fmt.Println(r.helper.cmd.Process.Pid)
			_, _ = io.Copy(io.Discard, os.Stdin)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// host is a group of this machine, "app" in a "pod", of which the pod has twice the default weight.
type host struct {
	*testing.T
	fs       *cgroup.FS
	pod, app string
	want     map[string]cgroup.Weight // before
	messages bytes.Buffer
}

// TestHost raises weights on this machine's kernel, of either version.
func TestHost(t *testing.T) {
	for name, test := range map[string]func(*host){
		"first": (*host).first, "ended": (*host).ended, "killed": (*host).killed, "killed-both": (*host).killedBoth, "cleaned": (*host).cleaned, "helper-killed": (*host).helperKilled,
		"twice": (*host).twice, "written-back": (*host).writtenBack, "changed": (*host).changed, "gone": (*host).gone, "refused": (*host).refused,
	} {
		t.Run(name, func(t *testing.T) {
			fs := cgrouptest.OpenHost(t)
			pod := fmt.Sprintf("/pinfold-test-weight-%d", os.Getpid())
			h := &host{T: t, fs: fs, pod: pod, app: pod + "/app"}
			for _, group := range []string{h.pod, h.app} {
				cgrouptest.Make(t, fs, group, controllers()...)
			}
			h.set(h.pod, 2*h.weight(h.app))
			h.want = h.weights()
			test(h)
			if _, err := os.Lstat(filepath.Join("/", fileName)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", fileName, err)
			}
		})
	}
}

func (h *host) weight(group string) cgroup.Weight {
	h.Helper()
	return must.Get(h.fs.ReadParts(group, cgroup.Parts{Weight: true}))(h).Weight
}

func (h *host) set(group string, weight cgroup.Weight) {
	h.Helper()
	must.Do(h, h.fs.Apply(map[string]cgroup.Wanted{group: {Weight: &weight}}).Err())
}

func (h *host) weights() map[string]cgroup.Weight {
	return map[string]cgroup.Weight{h.pod: h.weight(h.pod), h.app: h.weight(h.app)}
}

func (h *host) raise() *Raised {
	h.Helper()
	r := must.Get(Raise(h.fs, []string{h.app}, &h.messages))(h)
	h.raised()
	return r
}

func (h *host) raised() {
	h.Helper()
	largest := Largest(h.fs.Layout().CPU)
	if diff := cmp.Diff(map[string]cgroup.Weight{h.pod: largest, h.app: largest}, h.weights()); diff != "" {
		h.Errorf("not raised (-want +got):\n%s", diff)
	}
}

func (h *host) restored() {
	h.Helper()
	if diff := cmp.Diff(h.want, h.weights()); diff != "" {
		h.Errorf("not as before (-want +got):\n%s", diff)
	}
}

// start starts another process that raises the weights, and returns its helper's id.
func (h *host) start() (raiser *exec.Cmd, helper int) {
	h.Helper()
	raiser = exec.Command("/proc/self/exe", raiseWord, h.app)
	raiser.Stderr = os.Stderr
	stdin := must.Get(raiser.StdinPipe())(h)
	stdout := must.Get(raiser.StdoutPipe())(h)
	must.Do(h, raiser.Start())
	h.Cleanup(func() {
		_ = stdin.Close()
		_ = raiser.Wait()
	})
	line := must.Get(bufio.NewReader(stdout).ReadString('\n'))(h)
	h.raised()
	return raiser, must.Get(strconv.Atoi(strings.TrimSpace(line)))(h)
}

// first: on a CPU that both want, a group gets far more than a neighbour of the group above it.
func (h *host) first() {
	other, one := h.pod+"-other", cpuset.Of(must.Get(h.fs.Effective("/"))(h).First())
	cgrouptest.Make(h, h.fs, other, controllers()...)
	used := map[string]time.Duration{}
	for _, group := range []string{h.app, other} {
		must.Do(h, h.fs.Apply(map[string]cgroup.Wanted{group: {CPUs: &one}}).Err())
		cgrouptest.Start(h, h.fs, group, "busy", controllers()...)
	}
	r := h.raise()
	since := func(group string) time.Duration {
		return must.Get(cgroupstat.Read(h.fs, group))(h).Usage - used[group]
	}
	used[h.app], used[other] = since(h.app), since(other)
	wait.True(h, "the group runs", func() bool { return since(h.app) > 300*time.Millisecond })
	if got := since(other); got > 100*time.Millisecond {
		h.Errorf("the neighbour used %v beside %v", got, since(h.app))
	}
	must.Do(h, r.Restore())
}

func controllers() []cgroup.Controller {
	return []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet}
}

func (h *host) ended() {
	r := h.raise()
	if held := r.Keep(); !held[h.app] {
		h.Errorf("held: %v", held)
	}
	must.Do(h, r.Restore())
	h.restored()
	if h.messages.Len() > 0 {
		h.Error(h.messages.String())
	}
}

func (h *host) killed() {
	raiser, _ := h.start()
	must.Do(h, raiser.Process.Kill())
	wait.Until(h, "the helper puts back the weights", func() error {
		if _, err := os.Lstat("/" + fileName); err == nil {
			return errors.New("the file of weights is there")
		}
		return nil
	})
	h.restored()
}

func (h *host) killedBoth() {
	raiser, helper := h.start()
	must.Do(h, syscall.Kill(helper, syscall.SIGKILL))
	must.Do(h, raiser.Process.Kill())
	_ = raiser.Wait()
	h.raised()
	var r *Raised
	wait.Until(h, "the helper has ended", func() (err error) {
		r, err = Raise(h.fs, []string{h.app}, &h.messages)
		return err
	})
	h.raised()
	must.Do(h, Clean(h.fs)) // which leaves what is in use
	h.raised()
	must.Do(h, r.Restore())
	h.restored()
}

func (h *host) cleaned() {
	raiser, helper := h.start()
	must.Do(h, syscall.Kill(helper, syscall.SIGKILL))
	must.Do(h, raiser.Process.Kill())
	_ = raiser.Wait()
	wait.Until(h, "the weights are put back", func() error {
		must.Do(h, Clean(h.fs))
		if h.weight(h.app) != h.want[h.app] {
			return errors.New("the helper has not ended")
		}
		return nil
	})
	h.restored()
}

func (h *host) helperKilled() {
	r := h.raise()
	must.Do(h, r.helper.cmd.Process.Kill())
	must.Do(h, r.Restore())
	h.restored()
}

func (h *host) twice() {
	r := h.raise()
	if _, err := Raise(h.fs, []string{h.pod}, &h.messages); !errors.Is(err, ErrRaised) {
		h.Errorf("a second one: %v", err)
	}
	h.raised()
	must.Do(h, r.Restore())
	h.restored()
}

// writtenBack: what writes the weights from before, as the kubelet does, has no effect for long.
func (h *host) writtenBack() {
	r := h.raise()
	h.set(h.pod, h.want[h.pod])
	if held := r.Keep(); !held[h.app] {
		h.Errorf("held: %v", held)
	}
	h.raised()
	must.Do(h, r.Restore())
	h.restored()
}

func (h *host) changed() {
	r := h.raise()
	h.want[h.pod]++
	h.set(h.pod, h.want[h.pod])
	if held := r.Keep(); held[h.app] {
		h.Errorf("held: %v", held)
	}
	must.Do(h, r.Restore())
	h.restored()
	if want := fmt.Sprintf("pinfold: %s has the weight %d, which somebody has set meanwhile: it stays\n", h.pod, h.want[h.pod]); h.messages.String() != want {
		h.Errorf("%q, want %q", h.messages.String(), want)
	}
}

func (h *host) gone() {
	r := h.raise()
	must.Do(h, os.Remove(h.fs.Dir(cgroup.CPU, h.app)))
	if held := r.Keep(); held[h.app] {
		h.Errorf("held: %v", held)
	}
	must.Do(h, r.Restore())
	if got := h.weight(h.pod); got != h.want[h.pod] || h.messages.Len() > 0 {
		h.Errorf("weight %d, want %d; %q", got, h.want[h.pod], h.messages.String())
	}
}

func (h *host) refused() {
	for group, want := range map[string]string{"/": "has no weight", h.app + "/none": "does not exist"} {
		if _, err := Raise(h.fs, []string{h.app, group}, &h.messages); err == nil || !strings.Contains(err.Error(), want) {
			h.Errorf("%s: %v", group, err)
		}
	}
	if err := h.fs.Apply(map[string]cgroup.Wanted{h.pod: {Idle: new(true)}}).Err(); errors.Is(err, errors.ErrUnsupported) {
		return // Linux 5.14 and older
	} else if err != nil {
		h.Fatal(err)
	}
	if _, err := Raise(h.fs, []string{h.app}, &h.messages); err == nil || !strings.Contains(err.Error(), path.Base(h.pod)+" is idle") {
		h.Error(err)
	}
}
