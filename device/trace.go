package device

import "fmt"

// Trace remembers the operations of one pass through a step and compares later
// passes with it. A step that a GPU replays must issue the same operations
// whenever it runs; a device without replay checks that rule with a Trace.
type Trace struct {
	calls []traced
	next  int
	full  bool // the first pass is over
}

type traced struct {
	name    string
	tensors []*Tensor
	scalars string
}

// Begin starts a pass.
func (t *Trace) Begin() { t.next = 0 }

// End closes a pass; an error when it issued fewer operations than the first.
func (t *Trace) End() error {
	if t.full && t.next < len(t.calls) {
		return fmt.Errorf("replay: the step stopped after %d of %d operations; next was %s", t.next, len(t.calls), t.calls[t.next].name)
	}
	t.full = true
	return nil
}

func (t *Trace) add(c *call) error {
	now := traced{c.name, c.tensors, fmt.Sprint(c.scalars...)}
	defer func() { t.next++ }()
	if !t.full {
		t.calls = append(t.calls, now)
		return nil
	}
	if t.next >= len(t.calls) {
		return fmt.Errorf("replay: operation %d, %s, was not recorded", t.next, now.name)
	}
	was := t.calls[t.next]
	if was.name != now.name || was.scalars != now.scalars || len(was.tensors) != len(now.tensors) {
		return fmt.Errorf("replay: operation %d was %s(%s), now %s(%s)", t.next, was.name, was.scalars, now.name, now.scalars)
	}
	for i := range was.tensors {
		if !sameView(was.tensors[i], now.tensors[i]) {
			return fmt.Errorf("replay: operation %d, %s, got another tensor: was %v, now %v", t.next, now.name, was.tensors[i], now.tensors[i])
		}
	}
	return nil
}
