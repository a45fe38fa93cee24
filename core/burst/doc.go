// Package burst decides how far the quota of containers is raised, out of token buckets.
package burst
