package report

import (
	"fmt"
	"strings"
	"testing"
)

// Labels cover neither marks nor each other, and one that is alone is shown.
func TestLabels(t *testing.T) {
	crowded := Curve{Series: []Series{{Name: "a"}, {Name: "b"}}}
	for i := range 40 {
		p := Point{Short: fmt.Sprint(128 << (i % 4)), X: float64(i % 7), Y: float64(i * i % 11)}
		crowded.Series[i%2].Points = append(crowded.Series[i%2].Points, p)
	}
	crowded.Series[0].Points = append(crowded.Series[0].Points, Point{Short: "alone", X: 60, Y: 5})
	v := crowded.view(0)
	var boxes []box
	shown := 0
	for _, s := range v.Series {
		for _, p := range s.Points {
			boxes = append(boxes, box{p.X - markRoom, p.X + markRoom, p.Y - markRoom, p.Y + markRoom})
		}
	}
	marks := len(boxes)
	for _, s := range v.Series {
		for _, p := range s.Points {
			if p.Short == "alone" && !p.Label.Shown {
				t.Error("there is room for a label that is not shown")
			}
			if p.Label.Shown {
				shown++
				boxes = append(boxes, box{p.Label.X, p.Label.X + float64(charWidth*len(p.Short)), p.Label.Y + 2 - charHeight, p.Label.Y + 2})
			}
		}
	}
	for i := marks; i < len(boxes); i++ {
		for j := range i {
			if boxes[i].meets(boxes[j]) {
				t.Errorf("label %d covers %d: %v, %v", i, j, boxes[i], boxes[j])
			}
		}
	}
	if shown == 0 || shown == marks {
		t.Errorf("%d of %d labels: the test shows nothing", shown, marks)
	}
}

// Series are told apart by colour or marker, however many there are, and none
// looks like the reference.
func TestStyles(t *testing.T) {
	seen := map[string]bool{}
	for n := range seriesColours {
		if !strings.Contains(pageCSS, fmt.Sprintf(".s%d {", n)) {
			t.Errorf("the style sheet has no colour for series %d", n)
		}
	}
	for n := range 24 {
		class, marker := style(n)
		if seen[class+marker] || marker == markers[0] {
			t.Errorf("series %d looks like another", n)
		}
		seen[class+marker] = true
	}
}
