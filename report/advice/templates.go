package advice

import (
	"embed"
	"html/template"
	texttemplate "text/template"
)

//go:embed patch.yaml.tmpl page.html.tmpl page.css
var files embed.FS

func patchTemplate() (*texttemplate.Template, error) {
	return texttemplate.ParseFS(files, "patch.yaml.tmpl")
}

func pageTemplate() (*template.Template, error) {
	return template.ParseFS(files, "page.html.tmpl")
}
