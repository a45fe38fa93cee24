// Package must ends a test at an error that the test does not expect.
//
//	must.Do(t, os.Mkdir(dir, 0o700))
//	text := must.Get(os.ReadFile(name))(t)
package must

// TB is a [testing.TB] or a test of another package.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Do ends a test if there is an error.
func Do(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a function that ends a test if there is an error, and otherwise returns the value.
func Get[T any](value T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
