package device

import (
	"strings"
	"testing"
)

func TestMeter(t *testing.T) {
	m := NewMeter(BF16)
	w, err := m.Import("w", F32, []int{3, 5}, nil)
	if err != nil || w.DType != BF16 || m.Imported() != 30 {
		t.Fatalf("%v, %v, %d bytes", err, w, m.Imported())
	}
	x, err := m.New("x", F32, 2, 5)
	if err != nil || m.Made() != 40 || m.Memory().Used != 70 {
		t.Fatalf("%v, %d bytes, %+v", err, m.Made(), m.Memory())
	}
	y, err := m.New("y", BF16, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(func(o *Ops) { o.Linear(y, x, Weight{Parts: []*Tensor{w}}) }); err != nil {
		t.Error(err)
	}
	if err := m.Run(func(o *Ops) { o.Linear(x, y, Weight{Parts: []*Tensor{w}}) }); err == nil || !strings.Contains(err.Error(), "Linear: weight is w BF16[3 5]") {
		t.Errorf("a product that does not fit: %v", err)
	}
	if err := m.Upload(x, make([]byte, 3)); err == nil {
		t.Error("a short upload")
	}
	if got, err := Read[float32](m, x); err != nil || len(got) != 10 || got[0] != 0 {
		t.Error(got, err)
	}
	if _, err := m.ImportInt8("w", F32, []int{15}, nil); err == nil {
		t.Error("a vector as int8")
	}
	q, err := m.ImportInt8("w", F32, []int{3, 5}, nil)
	if err != nil || q.DType != I8 || m.Imported() != 30+16+12 { // 15 bytes, padded, and 3 factors
		t.Fatalf("%v, %v, %d bytes", err, q, m.Imported())
	}
	m.Free(q)
	m.Free(x)
	m.Free(w)
	if m.Imported() != 0 || m.Made() != 12 {
		t.Errorf("%d and %d bytes left", m.Imported(), m.Made())
	}
	if _, err := m.New("z", F32, 1<<40, 1<<40); err == nil {
		t.Error("2^82 bytes")
	}
}
