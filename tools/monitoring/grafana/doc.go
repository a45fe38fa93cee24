// Package grafana has the parts of a Grafana dashboard that ours are made of, as types. A
// file that has anything else is refused, so that a misspelt option does not pass as one
// that Grafana ignores. The model is that of Grafana 10 and later (schema version 39).
package grafana
