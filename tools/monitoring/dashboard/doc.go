// Package dashboard defines Pinfold's Grafana dashboard: its panels and their queries. The file
// that Grafana imports, deploy/grafana/pinfold.json, is generated from it by
//
//	PINFOLD_UPDATE=1 go test -C tools/monitoring ./dashboard
//
// In queries, @node stands for the matchers of the selected nodes, and @pods for those of the
// selected nodes, namespaces and pods.
package dashboard
