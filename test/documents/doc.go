// Package documents tests that the commands of README.md and the documents work as they are
// written. claims lists the test that executes each code block, or the reason why none does.
// The tests here execute those that no test elsewhere does, as a reader would: in a shell, in the
// repository, with the programs that "make" builds. Some need root, or a kernel that can be traced,
// and skip otherwise.
package documents
