package chart

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"pinfold.dev/pinfold/report"
)

// SVG writes the chart as an SVG file with a white background.
func (c *Chart) SVG(w io.Writer) error {
	body, err := c.body(true)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n%s", c.svg(fmt.Sprintf(`width="%d" height="%d" `, Width, c.height()), body))
	return err
}

// HTML returns the chart as an element of a page. It is as wide as possible, has no background, and
// the page may set its colours.
func (c *Chart) HTML() (string, error) {
	body, err := c.body(false)
	if err != nil {
		return "", err
	}
	var variables []string
	for _, p := range paints() {
		variables = append(variables, ":"+hex(p.colour), fmt.Sprintf(":var(%s,%s)", p.variable, hex(p.colour)))
	}
	return c.svg("", strings.NewReplacer(variables...).Replace(body)), nil
}

// svg adds the root element, with title and description for screen readers.
func (c *Chart) svg(size, body string) string {
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" %sviewBox=\"0 0 %d %d\" role=\"img\" font-family=\"%s\">\n<title>%s</title>\n<desc>%s</desc>\n%s",
		size, Width, c.height(), "'Liberation Sans',Arial,Helvetica,sans-serif", escape(c.Title), escape(c.Description), body)
}

func escape(s string) string { return html.EscapeString(report.Printable(s)) }

// hex formats a colour as vgsvg does.
func hex(c color.RGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }

// body returns the SVG without its head.
func (c *Chart) body(background bool) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	canvas := vgsvg.New(Width, vg.Length(c.height()))
	all := draw.New(canvas)
	if background {
		all.SetColor(ground().colour)
		all.Fill(all.Path())
	}
	c.draw(all)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", fmt.Errorf("draw %q: %w", c.Title, err)
	}
	_, body, found := strings.Cut(b.String(), `xmlns:xlink="http://www.w3.org/1999/xlink">`+"\n")
	if !found {
		return "", fmt.Errorf("draw %q: the SVG does not begin as expected", c.Title)
	}
	return typeface().Replace(body), nil
}

// typeface removes from texts what the root element specifies.
func typeface() *strings.Replacer {
	return strings.NewReplacer("font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;", "",
		"font-family:Liberation Sans;font-variant:normal;font-weight:bold;font-style:normal;", "font-weight:bold;")
}

const pointsPerInch = 72 // gonum takes a unit of the SVG for a point

// PNG writes the chart as an image with a white background.
func (c *Chart) PNG(w io.Writer) error {
	if err := c.check(); err != nil {
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(Width, vg.Length(c.height())), vgimg.UseDPI(PixelsPerUnit*pointsPerInch),
		vgimg.UseBackgroundColor(ground().colour))
	all := draw.New(canvas)
	c.draw(all)
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("draw %q: %w", c.Title, err)
	}
	return nil
}
