// Package owned opens directories and files that only the current user can have written, so that a
// program that runs as root does not trust another user's input:
//
//	root, err := owned.Open(dir)             // rejects a directory that another user can change
//	text, err := owned.ReadFile(root, name)  // rejects a file that another user can change
//	lock, err := owned.Lock(path)            // a lock that no other user can hold
//
// A directory is trusted if it belongs to the user, neither its group nor others may write to it,
// and no other user can replace it: each directory above it belongs to root or to the user, and is
// not writable by others unless it is sticky, as /tmp is. For root, the user who called sudo(8) is
// trusted as well, because that user may run the program as root anyway.
package owned
