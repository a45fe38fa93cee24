package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// RootMaker is the program that makes root file systems.
const RootMaker = "mmdebstrap"

// The root file system of machines in user mode: Debian with systemd and what a node needs.
const (
	rootRelease  = "trixie"
	rootPackages = "systemd,systemd-sysv,dbus,udev,iproute2,procps,util-linux,kmod,ca-certificates,crun"
)

// Root returns the directory of a root file system of Debian with systemd, for [guest.System]. The
// first call makes it from the packages of the host's mirror (250 MB), in the user's cache
// directory; later ones use that again. It must be called as root.
func Root(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "pinfold")
	sum := sha256.Sum256([]byte(rootRelease + " " + rootPackages))
	root := filepath.Join(cache, fmt.Sprintf("debian-%x", sum[:6]))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	mirror, err := mirror(ctx)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	// A complete one is moved to its place, so that an interrupted call leaves nothing that looks
	// complete.
	temporary, err := os.MkdirTemp(cache, "debian-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temporary)
	made := filepath.Join(temporary, "root")
	cmd := exec.CommandContext(ctx, RootMaker, "--quiet", "--variant=minbase", "--include="+rootPackages, rootRelease, made,
		"deb "+mirror+" "+rootRelease+" main")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	if err := os.Rename(made, root); err != nil && !errors.Is(err, os.ErrExist) { // another test was faster
		return "", err
	}
	return root, nil
}

// mirror returns the Debian mirror that this machine uses.
func mirror(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)").Output()
	if err != nil {
		return "", fmt.Errorf("find the mirror of packages: %w", err)
	}
	for uri := range strings.FieldsSeq(string(out)) {
		if !strings.Contains(uri, "security") {
			return uri, nil
		}
	}
	return "", errors.New("find the mirror of packages: apt has none; run apt-get update")
}
