package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"pinfold.dev/pinfold/report/sweep"
	"pinfold.dev/pinfold/test/must"
)

// replaceable reports whether the tests may replace a file.
func replaceable(name string) bool { return slices.Contains([]string{"a", "b"}, name) }

func contents(text string) []sweep.File {
	return []sweep.File{{Name: "a", Content: []byte(text)}, {Name: "b", Content: []byte(text)}}
}

func writeFolder(ctx context.Context, path string, force bool, files []sweep.File) error {
	f, err := newFolder(path, force, replaceable)
	if err != nil {
		return err
	}
	return f.write(ctx, files)
}

// tree returns the files below a folder with their contents, and its subfolders.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if path != dir {
				all[strings.TrimPrefix(path, dir+"/")+"/"] = ""
			}
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestFolder(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	whole := map[string]string{"d/": "", "d/a": "new", "d/b": "new"}
	for _, test := range []struct {
		name  string
		given map[string]string // paths that end in / are folders
		force bool
		ctx   context.Context
		files []sweep.File // contents("new") when nil
		want  map[string]string
		err   string
	}{
		{name: "new", want: whole},
		{name: "new with force", force: true, want: whole},
		{name: "taken", given: map[string]string{"d/a": "old"}, want: map[string]string{"d/": "", "d/a": "old"}, err: "file already exists: choose another name, or replace it with --force"},
		{name: "taken by an empty folder", given: map[string]string{"d/": ""}, want: map[string]string{"d/": ""}, err: "file already exists"},
		{name: "replaced", given: map[string]string{"d/a": "old"}, force: true, want: whole},
		{name: "an empty one replaced", given: map[string]string{"d/": ""}, force: true, want: whole},
		{name: "other files", given: map[string]string{"d/a": "old", "d/letter": "dear"}, force: true,
			want: map[string]string{"d/": "", "d/a": "old", "d/letter": "dear"}, err: "letter"},
		{name: "a folder with the name of a file", given: map[string]string{"d/a/x": "old"}, force: true,
			want: map[string]string{"d/": "", "d/a/": "", "d/a/x": "old"}, err: "not of an earlier sweep"},
		{name: "a file", given: map[string]string{"d": "old"}, force: true, want: map[string]string{"d": "old"}, err: "d is not a folder"},
		{name: "interrupted", ctx: cancelled, want: map[string]string{}, err: "context canceled"},
		{name: "interrupted while replacing", given: map[string]string{"d/a": "old"}, force: true, ctx: cancelled,
			want: map[string]string{"d/": "", "d/a": "old"}, err: "context canceled"},
		{name: "a write fails", given: map[string]string{"d/a": "old"}, force: true, files: []sweep.File{{Name: "a"}, {Name: "missing/b"}},
			want: map[string]string{"d/": "", "d/a": "old"}, err: "missing/b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			plant(t, dir, test.given)
			ctx, files := test.ctx, test.files
			if ctx == nil {
				ctx = t.Context()
			}
			if files == nil {
				files = contents("new")
			}
			err := writeFolder(ctx, filepath.Join(dir, "d"), test.force, files)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want one with %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, tree(t, dir)); diff != "" {
				t.Errorf("folder (-want +got):\n%s", diff)
			}
		})
	}
}

func plant(t *testing.T, dir string, given map[string]string) {
	t.Helper()
	for path, text := range given {
		full := filepath.Join(dir, path)
		if strings.HasSuffix(path, "/") {
			full += "/."
		}
		must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
		if !strings.HasSuffix(path, "/") {
			must.Do(t, os.WriteFile(full, []byte(text), 0o600))
		}
	}
}

// TestFolderPlaces: newFolder rejects places where a folder cannot be made.
func TestFolderPlaces(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir, map[string]string{"file": "", "real/a": "old"})
	must.Do(t, os.Symlink("real", filepath.Join(dir, "link")))
	for path, want := range map[string]string{"none/d": "no such file or directory", "file/d": "not a directory", "link": "link is not a folder"} {
		if _, err := newFolder(filepath.Join(dir, path), true, replaceable); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
	for range 2 { // anew, and in place of that
		if err := writeFolder(t.Context(), filepath.Join(dir, strings.Repeat("n", 255)), true, contents("new")); err != nil {
			t.Error(err)
		}
	}
}

// TestFoldersAtOnce: when several goroutines make the same folder at once, one wins, and the folder
// is complete and that of one of them.
func TestFoldersAtOnce(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprint("force ", force), func(t *testing.T) {
			dir := t.TempDir()
			var group errgroup.Group
			won := make(chan int, 4)
			for i := range cap(won) {
				group.Go(func() error {
					err := writeFolder(t.Context(), filepath.Join(dir, "d"), force, contents(fmt.Sprint("writer ", i)))
					if err == nil {
						won <- i
						return nil
					}
					if !force && errors.Is(err, fs.ErrExist) {
						return nil
					}
					return err
				})
			}
			if err := group.Wait(); err != nil {
				t.Error(err)
			}
			if n := len(won); n != 1 && !force || n != cap(won) && force {
				t.Errorf("%d of %d have made it", n, cap(won))
			}
			got := tree(t, dir)
			if len(got) != 3 || got["d/a"] != got["d/b"] || !strings.HasPrefix(got["d/a"], "writer ") {
				t.Errorf("there is %q", got)
			}
		})
	}
}
