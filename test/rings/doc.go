// Package rings tests that the repository follows its own layout (docs/design.md, section 2):
//
//   - Imports point inward: core < linux, kube < agent < local < cmd < test. A room is a directory
//     with an entry in rooms, which lists its permitted imports. A directory without an
//     entry is an error, so that every new room is placed deliberately. Rooms of one ring do not
//     import each other, nor do commands; programs share cmd/frame. report is on the same level
//     as local and imports core only; deploy imports internal only. internal is shared by rooms that do I/O
//     and imports nothing. The tests of all rooms share test/bpf, test/busy, test/checkout, test/golden,
//     test/logtext, test/must, test/need, test/race, test/variables and test/wait. Of these, only
//     test/wait imports another room, test/busy.
//   - Controllers of the agent (agent/control) do not import each other.
//   - core has no I/O: of the standard library it uses neither files, sockets, clocks, standard
//     output nor random numbers without a source that was passed in. Of other modules it uses only
//     gonum, and test libraries in tests.
//   - Every package has a package comment.
//   - No file is longer than 400 lines, except generated files.
//
// The checks read the source text of every .go file, regardless of build tags, and need neither the
// go command nor a network. Test code is _test.go files and packages named ...test, such as
// net/http/httptest; only test code may import such packages. A module inside the module is
// checked with it if it is a room. Other modules, testdata and directories that the go command
// ignores are excluded.
package rings
