package template

import (
	"encoding/json"
	"testing"
	"time"

	"blitzen/internal/golden"
)

// An expression renders as Jinja2 renders it, or is an error: never another text.
func TestOperatorsAsJinja(t *testing.T) {
	var want struct {
		Values map[string]json.RawMessage
		Cases  []struct {
			Template, Error string
			Rendered        *string
			Refused, Random bool
		}
	}
	golden.JSON(t, "testdata/operators.json", &want)
	renders, same := 0, 0
	for _, w := range want.Cases {
		got, err := render(w.Template, fromJSON(t, want.Values), limits{time: time.Minute, bytes: 1 << 40})
		switch {
		case w.Rendered == nil || w.Refused:
			if err == nil {
				t.Errorf("%q: %q, want an error; Jinja2: %s", w.Template, got, w.Error)
			}
		case err != nil && !w.Random:
			t.Errorf("%q: %v, want %q", w.Template, err, *w.Rendered)
		case err == nil && got != *w.Rendered:
			t.Errorf("%q: %q, want %q", w.Template, got, *w.Rendered)
		}
		if w.Rendered != nil && w.Random {
			renders++
			if err == nil {
				same++
			}
		}
	}
	if same < renders*9/10 {
		t.Errorf("of %d random expressions that Jinja2 renders, only %d do here", renders, same)
	}
}
