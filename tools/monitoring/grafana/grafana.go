package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// SchemaVersion is that of the model.
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

// Range is what time is shown at first.
type Range struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Templating are the variables.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is one choice at the top of the dashboard.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"` // datasource, query
	DataSource *DataSource `json:"datasource,omitempty"`
	Query      string      `json:"query"`
	Refresh    int         `json:"refresh,omitempty"` // 2: when the time range changes, too
	Sort       int         `json:"sort,omitempty"`    // 1: by name
	Multi      bool        `json:"multi,omitempty"`
	IncludeAll bool        `json:"includeAll,omitempty"`
	AllValue   string      `json:"allValue,omitempty"`
	Current    *Current    `json:"current,omitempty"`
}

// Current is what is chosen at first.
type Current struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// DataSource says where data come from.
type DataSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a picture, or a row that others stand below.
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

// Columns is how wide a dashboard is.
const Columns = 24

// GridPos is where a panel stands, in cells.
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

// FieldConfig says how values are shown.
type FieldConfig struct {
	Defaults  FieldDefaults `json:"defaults"`
	Overrides []Override    `json:"overrides"`
}

// FieldDefaults are those of all values of a panel.
type FieldDefaults struct {
	Unit       string         `json:"unit,omitempty"`
	Min        *float64       `json:"min,omitempty"`
	Decimals   *int           `json:"decimals,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
	Color      map[string]any `json:"color,omitempty"`
	Thresholds *Thresholds    `json:"thresholds,omitempty"`
}

// Thresholds colour values.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is the colour from a value on; the first has none.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Override is for some values of a panel.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher says for which.
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

// Parse reads a dashboard.
func Parse(text []byte) (Dashboard, error) {
	var d Dashboard
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Dashboard{}, fmt.Errorf("read the dashboard: %w", err)
	}
	if decoder.More() {
		return Dashboard{}, fmt.Errorf("read the dashboard: there is more than one value in the file")
	}
	return d, nil
}

// Text is the file of a dashboard.
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
