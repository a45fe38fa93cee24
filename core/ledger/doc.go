// Package ledger keeps one node's books: which CPUs are reserved, exclusive and
// shared, by container, and what may still be given away.
package ledger
