package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// hostile are tokens that mean something to HTML, to scripts or to people's
// eyes.
var hostile = []string{
	"</script><script>alert(1)</script>", "<!--", "-->", `"><img src=x onerror=alert(1)>`, "]]>", "\u2028", "\u202e", "\x00", "\n", "'", `\u003c`, "&lt;", "{{.Title}}", "\ufffd", "日本",
}

// full is a page with every part, over hostile tokens.
func full() *Page {
	n := len(hostile)
	ones := slices.Repeat([]float64{1}, n)
	kld := make([]float64, n)
	for i := range kld {
		kld[i] = math.Pow(10, float64(-i))
	}
	mass, reads := make([][]float64, 3), make([][]float64, 3)
	for i := range mass {
		for t := range n {
			mass[i] = append(mass[i], math.Pow(0.4, float64(t+i+1)))
			reads[i] = append(reads[i], float64(t)/float64(n))
		}
	}
	return &Page{
		Title: hostile[0], Facts: []Fact{{hostile[3], hostile[0]}}, Curves: []Curve{table(), table()},
		Divergence: &Divergence{Base: hostile[3], Method: hostile[0], Tokens: hostile, Seeds: []uint64{1, 2}, KLD: [][]float64{kld, ones}, NLLBase: ones, NLL: ones,
			Control: make([]float64, n), Figures: Table{Head: []string{"", hostile[0]}, Rows: [][]string{{hostile[3], "1"}}}},
		Map: &Map{Method: hostile[0], Tokens: hostile, Mass: mass, Reads: reads, Errors: []float64{0.1, 0.2, 0.3}},
	}
}

func render(t *testing.T, p *Page) (*html.Node, string) {
	t.Helper()
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return root, out.String()
}

// all are the elements of some kind; "" for every one.
func all(root *html.Node, tag string) (found []*html.Node) {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && (tag == "" || n.Data == tag) {
			found = append(found, n)
		}
	}
	return found
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func words(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func byClass(root *html.Node, class string) *html.Node {
	for _, n := range all(root, "") {
		if slices.Contains(strings.Fields(attribute(n, "class")), class) {
			return n
		}
	}
	return nil
}

// No text becomes an element, an attribute or a script; nothing is fetched.
func TestHostileText(t *testing.T) {
	root, _ := render(t, full())
	scripts := all(root, "script")
	if len(scripts) != 2 || attribute(scripts[0], "type") != "application/json" || words(scripts[1]) != pageJS {
		t.Fatalf("%d scripts", len(scripts))
	}
	for _, n := range all(root, "") {
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || slices.Contains([]string{"src", "href", "srcset", "style"}, a.Key) {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
		if slices.Contains([]string{"img", "link", "iframe", "object", "embed", "base", "form", "i", "b"}, n.Data) {
			t.Errorf("<%s>", n.Data)
		}
	}
	policy := ""
	for _, n := range all(root, "meta") {
		if attribute(n, "http-equiv") == "Content-Security-Policy" {
			policy = attribute(n, "content")
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none';") {
		t.Errorf("policy %q", policy)
	}
	if got := words(all(root, "h1")[0]); got != hostile[0] {
		t.Errorf("title %q", got)
	}
	// NUL is not a character of HTML: it shows as U+FFFD.
	if got, want := words(byClass(root, "strip")), strings.ReplaceAll(strings.Join(hostile, ""), "\x00", "\ufffd"); got != want {
		t.Errorf("strip %q, want %q", got, want)
	}
}

// read is what the script gets.
type read struct {
	Tokens []struct{ Text, Says string }
	Map    *struct {
		Layers      int
		Tokens      []string
		Mass, Reads string
		Floor, Top  float64
	}
}

func dataOf(t *testing.T, root *html.Node) (d read) {
	t.Helper()
	if err := json.Unmarshal([]byte(words(all(root, "script")[0])), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Ids are unique and what refers to them finds them; everything that shows
// something on hover can be reached by keys and is in a table.
func TestStructure(t *testing.T) {
	root, _ := render(t, full())
	ids := map[string]int{}
	for _, n := range all(root, "") {
		if id := attribute(n, "id"); id != "" {
			ids[id]++
		}
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %q stands %d times", id, n)
		}
	}
	for _, n := range all(root, "") {
		for _, name := range []string{"aria-labelledby", "aria-describedby"} {
			if id := attribute(n, name); id != "" && ids[id] == 0 {
				t.Errorf("%s=%q: there is none", name, id)
			}
		}
		if attribute(n, "class") == "point" && (attribute(n, "tabindex") != "0" || attribute(n, "aria-label") == "") {
			t.Errorf("a point out of reach: %v", n.Attr)
		}
		if slices.Contains([]string{"kl", "detail"}, attribute(n, "id")) && (attribute(n, "tabindex") != "0" || attribute(n, "aria-label") == "") {
			t.Errorf("%s is out of reach", attribute(n, "id"))
		}
	}
	if n := len(all(root, "table")); n != 5 { // two curves, figures, layers, tokens
		t.Errorf("%d tables", n)
	}
	for _, th := range all(root, "th") {
		if attribute(th, "scope") == "" {
			t.Errorf("a head of nothing: %q", words(th))
		}
	}
	for _, n := range all(root, "svg") {
		if attribute(n, "aria-label") == "" && attribute(n, "aria-hidden") != "true" {
			t.Errorf("a picture without words: %v", n.Attr)
		}
	}
	if attribute(all(root, "html")[0], "lang") != "en" || len(all(root, "title")) != 1 {
		t.Error("no language or title")
	}
}

// Parts that are not there leave nothing behind, and no number is broken.
func TestParts(t *testing.T) {
	whole := full()
	few := full()
	few.Map.Reads, few.Map.Errors, few.Divergence.Control, few.Divergence.KLD = nil, nil, nil, few.Divergence.KLD[:1]
	few.Divergence.KLD[0] = make([]float64, len(hostile)) // nothing differs
	for name, p := range map[string]*Page{
		"empty": {Title: "t"}, "curve": {Title: "t", Curves: whole.Curves}, "map": {Title: "t", Map: whole.Map}, "tokens": {Title: "t", Divergence: whole.Divergence}, "few": few,
		"no points": {Title: "t", Curves: []Curve{{Title: "c"}}}, "no tokens": {Title: "t", Divergence: &Divergence{}, Map: &Map{}},
	} {
		root, source := render(t, p)
		if got := len(all(root, "section")); got != len(p.Curves)+count(p.Divergence != nil)+count(p.Map != nil) {
			t.Errorf("%s: %d sections", name, got)
		}
		for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!"} {
			if body, _, _ := strings.Cut(source, `<script type="application/json"`); strings.Contains(body, bad) {
				t.Errorf("%s: %s in the page", name, bad)
			}
		}
		dataOf(t, root)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A large prompt makes a page that a browser opens at once.
func TestSize(t *testing.T) {
	const layers, tokens = 28, 4096
	m := &Map{Method: "santapp"}
	for i := range tokens {
		m.Tokens = append(m.Tokens, fmt.Sprintf(" tok%d", i%100))
	}
	for range layers {
		row := make([]float64, tokens)
		for i := range row {
			row[i] = 1 / float64(i+1)
		}
		m.Mass, m.Reads = append(m.Mass, row), append(m.Reads, row)
	}
	_, source := render(t, &Page{Title: "large", Map: m})
	if len(source) > 450_000 {
		t.Errorf("%d bytes", len(source))
	}
}
