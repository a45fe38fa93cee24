// Package owned opens directories and files that only this user can have written, so
// that a program which runs as root obeys nobody else's:
//
//	root, err := owned.Open(dir)             // refuses a directory that another user can change
//	text, err := owned.ReadFile(root, name)  // refuses a file that another user can change
//	lock, err := owned.Lock(path)            // a lock that no other user can hold
//
// A directory is this user's when it belongs to them, when neither its group nor others
// may write to it, and when nobody else can put another directory in its place: each
// directory above it belongs to root or to this user and is not writable by others,
// unless it is sticky, as /tmp is. For root, the user who called sudo(8) counts as well:
// who may run this program as root needs no trick.
package owned
