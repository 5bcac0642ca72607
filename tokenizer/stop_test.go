package tokenizer

import (
	"strings"
	"testing"
)

func TestStopFilter(t *testing.T) {
	for _, c := range []struct {
		stops []string
		parts []string
		want  string // parts shown, separated by /
		stop  string
	}{
		{nil, []string{"a", "b"}, "a/b/", ""},
		{[]string{"END"}, []string{"say", " E", "N", "D more", "x"}, "say/ ////", "END"},
		{[]string{"END"}, []string{"EN", "EN", "x"}, "/EN/ENx/", ""},
		{[]string{"END"}, []string{"EEN"}, "E/EN", ""},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, "//a//", "aab"},
		{[]string{"\n\n", "\nUser:"}, []string{"hi\n", "User", "x\n", "\ny"}, "hi//\nUserx//", "\n\n"},
		{[]string{"abcd", "bc"}, []string{"xab", "cd"}, "x/a/", "bc"},
		{[]string{"bc", "abc"}, []string{"xabcd"}, "x/", "abc"},
		{[]string{"世"}, []string{"a世b"}, "a/", "世"},
		{[]string{"x"}, []string{""}, "/", ""},
	} {
		f, err := NewStopFilter(c.stops...)
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, part := range c.parts {
			text, stopped := f.Write(part)
			shown = append(shown, text)
			if stopped != (f.Stop() != "") {
				t.Errorf("%q: stopped %v at %q", c.parts, stopped, f.Stop())
			}
		}
		shown = append(shown, f.Flush())
		if got := strings.Join(shown, "/"); got != c.want || f.Stop() != c.stop {
			t.Errorf("%q stopped by %q: %q and %q, want %q and %q", c.parts, c.stops, got, f.Stop(), c.want, c.stop)
		}
	}
	if _, err := NewStopFilter("a", ""); err == nil {
		t.Error("an empty stop string")
	}
}

// However the text is split, the same is shown: all before the stop string that ends first.
func FuzzStop(f *testing.F) {
	f.Add("the end. END of", "END", "end.", uint64(0x123456))
	f.Add("aaaab", "aab", "ab", uint64(3))
	f.Fuzz(func(t *testing.T, text, a, b string, cuts uint64) {
		if a == "" || b == "" {
			return
		}
		want := text
		for end := range len(text) + 1 { // the shortest beginning that ends with a stop string
			cut := len(text) + 1
			for _, stop := range []string{a, b} {
				if strings.HasSuffix(text[:end], stop) {
					cut = min(cut, end-len(stop))
				}
			}
			if cut <= len(text) {
				want = text[:cut]
				break
			}
		}
		filter, err := NewStopFilter(a, b)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for rest := text; rest != ""; cuts = cuts>>3 | cuts<<61 {
			n := min(1+int(cuts&7), len(rest))
			shown, _ := filter.Write(rest[:n])
			got.WriteString(shown)
			if !strings.HasPrefix(want, got.String()) {
				t.Fatalf("%q with %q, %q: shows %q of %q", text, a, b, got.String(), want)
			}
			rest = rest[n:]
		}
		got.WriteString(filter.Flush())
		if got.String() != want {
			t.Fatalf("%q with %q, %q: %q, want %q", text, a, b, got.String(), want)
		}
	})
}
