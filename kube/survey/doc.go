// Package survey reads the objects of a cluster that concern Pinfold and makes a [status.Report] of
// them.
//
//	client, err := survey.NewClient(config, "pinfold-system")
//	objects, err := client.Read(ctx, "") // or the name of a node
//	report := objects.Report()
//
// [Client.Read] does the I/O. It lists nodes, pods, NodeTopologies, leases, and DaemonSets and Deployments
// of Pinfold in pages, keeps what the report needs of each object, and continues when a kind may not be
// listed. [Objects.Report] is a pure function. It shows what agents and schedulers have published: nothing
// that they keep in memory, and nothing of their configuration, is known. Section "What it cannot know" of
// docs/status.md lists the consequences.
//
// It links no client for all of Kubernetes' kinds, which would add some 20 MB to a command.
package survey
