// Package report draws results: as one HTML page that needs nothing else, no
// network and no other file, and as curves for papers.
//
//	Page ─► Write     curves and tables as SVG and HTML, made here;
//	                  the map as data that the page's script draws
//	Curve ─► WritePlot   SVG or PNG, by gonum/plot
//
// All text comes from outside (prompts, names of models) and is escaped where it
// is put, by html/template. The package knows no models: callers fill a Page.
package report

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
)

// Page is what one file shows. Parts that are nil or empty are left out.
type Page struct {
	Title      string
	Facts      []Fact // what was measured, and with what
	Curves     []Curve
	Divergence *Divergence
	Map        *Map
}

// Fact is a name with its value, for people.
type Fact struct{ Name, Value string }

// Table is rows of cells under a head.
type Table struct {
	Head []string
	Rows [][]string
}

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// Write writes the page as one HTML file.
func (p *Page) Write(w io.Writer) error {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return err
	}
	data, err := p.data()
	if err != nil {
		return err
	}
	v := view{Page: p, CSS: template.CSS(pageCSS), JS: template.JS(pageJS), Data: data}
	for i, c := range p.Curves {
		v.CurveViews = append(v.CurveViews, c.view(i))
	}
	if p.Divergence != nil {
		v.KL = p.Divergence.view()
	}
	if p.Map != nil {
		v.Rows = p.Map.tables()
	}
	return t.Execute(w, v)
}

// view is what the template is filled with. CSS and JS are the package's own.
type view struct {
	*Page
	CSS        template.CSS
	JS         template.JS
	Data       template.JS
	CurveViews []curveView
	KL         *klView
	Rows       mapTables
}

// data is what the script draws, as JSON in which <, > and & are escaped, so
// that no text in it can end the element it stands in.
func (p *Page) data() (template.JS, error) {
	var d struct {
		Tokens []tokenData `json:"tokens,omitempty"`
		Map    *mapData    `json:"map,omitempty"`
	}
	if p.Divergence != nil {
		d.Tokens = p.Divergence.data()
	}
	if p.Map != nil {
		d.Map = p.Map.data()
	}
	text, err := json.Marshal(d)
	return template.JS(text), err
}
