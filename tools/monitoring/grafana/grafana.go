// Package grafana defines the parts of a Grafana dashboard that Pinfold's dashboards use, as Go
// types. [Parse] reads a dashboard's JSON and [Dashboard.Text] writes it. Parse rejects any other
// field, because Grafana would silently ignore a misspelt option. The model is that of Grafana 10
// and later (schema version 39).
package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// SchemaVersion is the version of the dashboard model.
const SchemaVersion = 39

// Dashboard is a file that Grafana imports.
type Dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Description   string     `json:"description"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"` // 1: a crosshair that all panels share
	Refresh       string     `json:"refresh"`
	Time          Range      `json:"time"`
	Timezone      string     `json:"timezone"`
	Templating    Templating `json:"templating"`
	Panels        []Panel    `json:"panels"`
}

// Range is the initial time range.
type Range struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Templating contains the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a choice at the top of the dashboard.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"` // datasource, query
	DataSource *DataSource `json:"datasource,omitempty"`
	Query      string      `json:"query"`
	Refresh    int         `json:"refresh,omitempty"` // 2: also when the time range changes
	Sort       int         `json:"sort,omitempty"`    // 1: by name
	Multi      bool        `json:"multi,omitempty"`
	IncludeAll bool        `json:"includeAll,omitempty"`
	AllValue   string      `json:"allValue,omitempty"`
	Current    *Current    `json:"current,omitempty"`
}

// Current is the initial choice.
type Current struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// DataSource identifies the source of data.
type DataSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a visualization, or a row that groups those below it.
type Panel struct {
	ID              int              `json:"id"`
	Type            string           `json:"type"`
	Title           string           `json:"title"`
	Description     string           `json:"description,omitempty"`
	GridPos         GridPos          `json:"gridPos"`
	DataSource      *DataSource      `json:"datasource,omitempty"`
	Targets         []Target         `json:"targets,omitempty"`
	FieldConfig     *FieldConfig     `json:"fieldConfig,omitempty"`
	Options         map[string]any   `json:"options,omitempty"`
	Transformations []Transformation `json:"transformations,omitempty"`
	Collapsed       bool             `json:"collapsed,omitempty"` // of a row
}

// RowType is the type of rows.
const RowType = "row"

// Columns is the width of a dashboard.
const Columns = 24

// GridPos is the position and size of a panel, in cells.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is a query.
type Target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat,omitempty"`
	Format       string `json:"format,omitempty"` // time_series when empty
	Instant      bool   `json:"instant,omitempty"`
}

// FieldConfig configures how values are shown.
type FieldConfig struct {
	Defaults  FieldDefaults `json:"defaults"`
	Overrides []Override    `json:"overrides"`
}

// FieldDefaults apply to all values of a panel.
type FieldDefaults struct {
	Unit       string         `json:"unit,omitempty"`
	Min        *float64       `json:"min,omitempty"`
	Decimals   *int           `json:"decimals,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
	Color      map[string]any `json:"color,omitempty"`
	Thresholds *Thresholds    `json:"thresholds,omitempty"`
}

// Thresholds select the colours of values.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is the colour from a value on; the first step has no value.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Override changes settings for some values of a panel.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher selects the values of an override.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property is a setting and its value.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// Transformation changes tables before they are shown.
type Transformation struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

// Parse parses the JSON of a dashboard.
func Parse(text []byte) (Dashboard, error) {
	var d Dashboard
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Dashboard{}, fmt.Errorf("read the dashboard: %w", err)
	}
	if decoder.More() {
		return Dashboard{}, fmt.Errorf("read the dashboard: the file has more than one value")
	}
	return d, nil
}

// Text returns the JSON of a dashboard.
func (d Dashboard) Text() ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return nil, fmt.Errorf("write the dashboard: %w", err)
	}
	return text.Bytes(), nil
}
