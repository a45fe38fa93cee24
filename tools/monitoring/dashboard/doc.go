// Package dashboard is Pinfold's dashboard: what its panels show, and the queries. The file
// that Grafana imports, deploy/grafana/pinfold.json, is made of it by
//
//	PINFOLD_UPDATE=1 go test -C tools/monitoring ./dashboard
//
// In queries @node stands for the matchers of the nodes that are chosen, and @pods for those of
// nodes, namespaces and pods.
package dashboard
