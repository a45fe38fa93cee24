// Package cgrouptree makes and removes cgroups, and lists, moves and ends the processes in them.
//
//	parents, err := cgrouptree.FindParents(machine, cgroup.CPU)
//	fs := machine.Within(parents.Groups)
//	err = cgrouptree.Make(fs, "/new", cgroup.CPU)
//
// [FindParents] finds the groups in which this process may create groups. On version 1 these are
// its own groups. Version 2 allows processes in leaves only, so there it may be a group above. Of
// that, [cgroup.FS.Within] gives a view. [Make], [Kill] and [Remove] work on several hierarchies at
// once.
package cgrouptree
