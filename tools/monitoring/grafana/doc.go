// Package grafana defines the parts of a Grafana dashboard that Pinfold's dashboards use, as Go
// types. It rejects a file with any other field, because Grafana would silently ignore a misspelt
// option. The model is that of Grafana 10 and later (schema version 39).
package grafana
