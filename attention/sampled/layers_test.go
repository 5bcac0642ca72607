package sampled

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLayerSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s LayerSet
		most := 0
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, maxLayers-1), 0, 40).Draw(t, "layers") {
			s[i/64] |= 1 << (i % 64)
			most = max(most, i)
		}
		got, err := ParseLayers(s.String())
		if err != nil || got != s {
			t.Fatalf("%q reads back as %v, %v", s.String(), got, err)
		}
		if !s.Within(most+1) || s != (LayerSet{}) && s.Within(most) || s.Has(maxLayers) {
			t.Fatalf("%v: the last is %d", s, most)
		}
	})
}

func TestParseLayers(t *testing.T) {
	for list, want := range map[string]string{"": "", " ": "", "0": "0", "1,0": "0-1", "0-3, 27": "0-3,27", "5,5,4-6": "4-6", "255": "255"} {
		if s, err := ParseLayers(list); err != nil || s.String() != want {
			t.Errorf("%q: %v, %v, want %q", list, s, err, want)
		}
	}
	for _, list := range []string{",", "a", "-1", "3-1", "1-", "-", "256", "0-256", "1.5", "0,,1"} {
		if _, err := ParseLayers(list); err == nil || !strings.Contains(err.Error(), "--dense-layers") {
			t.Errorf("%q: %v", list, err)
		}
	}
}
