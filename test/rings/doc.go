// Package rings holds the repository to its own layout (docs/design.md, section 2):
//
//   - Imports point inward: core < linux, kube < agent < lab < cmd < test, where
//     report stands beside lab and sees core only, and deploy sees nothing. Rooms
//     of one ring do not see each other, nor do commands; cmd/internal is what
//     they share. internal is what rooms that do I/O share; it sees nothing. What a room may import is written in rooms; a folder without an
//     entry there is an error, so that every new room is placed on purpose. The
//     tests of all rooms share test/busy, test/golden, test/logtext, test/race and
//     test/variables, which see no other room.
//   - core decides and does nothing else: of the standard library it takes
//     neither files, sockets, clocks, standard output nor random numbers without a
//     source that was passed in; of other modules only gonum, and libraries for
//     tests in tests.
//   - Every package says in a comment what it is.
//   - No file is longer than 400 lines, generated ones excepted.
//
// The checks read the source text of every .go file, whatever its build tags
// ask for, and need neither the Go command nor a network. Test code is _test.go
// files and packages named ...test, as net/http/httptest is; only test code may
// import the latter. Modules inside the module, testdata and folders that the Go
// command ignores are left out.
package rings
