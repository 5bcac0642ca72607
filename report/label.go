package report

// label is where a short text stands beside a mark.
type label struct {
	Shown bool
	X, Y  float64 // of its baseline's left end, in pixels
}

// box is a rectangle in pixels.
type box struct{ left, right, top, bottom float64 }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// Size of a short text's characters, and of a mark with some room around it.
const (
	charWidth, charHeight = 7, 12
	markRoom              = 6
)

// label places the short texts where they cover nothing; those without such a
// place are left out, since the table has them all.
func (v *curveView) label() {
	var taken []box
	for _, s := range v.Series {
		for _, p := range s.Points {
			taken = append(taken, box{p.X - markRoom, p.X + markRoom, p.Y - markRoom, p.Y + markRoom})
		}
	}
	for i := range v.Series {
		for j := range v.Series[i].Points {
			p := &v.Series[i].Points[j]
			if b, ok := v.place(p, taken); ok {
				p.Label = label{true, round(b.left), round(b.bottom - 2)}
				taken = append(taken, b)
			}
		}
	}
}

// place tries the four corners of a mark.
func (v *curveView) place(p *pointView, taken []box) (b box, ok bool) {
	width := float64(charWidth * len(p.Short))
	if width == 0 {
		return b, false
	}
next:
	for _, corner := range [][2]float64{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
		x, y := p.X+corner[0]*(markRoom+2+width/2), p.Y+corner[1]*(markRoom+charHeight/2)
		b = box{x - width/2, x + width/2, y - charHeight/2, y + charHeight/2}
		if b.bottom > v.Bottom || b.top < v.Top-charHeight || b.left < v.Left || b.right > v.Right+charWidth {
			continue
		}
		for _, t := range taken {
			if b.meets(t) {
				continue next
			}
		}
		return b, true
	}
	return b, false
}
