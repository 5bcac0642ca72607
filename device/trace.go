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
	Call
	scalars string
}

// Calls are the operations of the first pass, in order.
func (t *Trace) Calls() []Call {
	calls := make([]Call, len(t.calls))
	for i, c := range t.calls {
		calls[i] = c.Call
	}
	return calls
}

// Last is the operation that was issued last in this pass, and its number from
// 0; −1 before the first.
func (t *Trace) Last() (Call, int) {
	if t.next == 0 {
		return Call{}, -1
	}
	return t.calls[t.next-1].Call, t.next - 1
}

// Begin starts a pass.
func (t *Trace) Begin() { t.next = 0 }

// End closes a pass; an error when it issued fewer operations than the first.
func (t *Trace) End() error {
	if t.full && t.next < len(t.calls) {
		return fmt.Errorf("replay: the step stopped after %d of %d operations; next was %s", t.next, len(t.calls), t.calls[t.next].Name)
	}
	t.full = true
	return nil
}

func (t *Trace) add(c *call) error {
	now := traced{c.Call, fmt.Sprint(c.scalars...)}
	defer func() { t.next++ }()
	if !t.full {
		t.calls = append(t.calls, now)
		return nil
	}
	if t.next >= len(t.calls) {
		return fmt.Errorf("replay: operation %d, %s, was not recorded", t.next, now.Name)
	}
	was := t.calls[t.next]
	if was.Name != now.Name || was.scalars != now.scalars || len(was.Args) != len(now.Args) {
		return fmt.Errorf("replay: operation %d was %s(%s), now %s(%s)", t.next, was.Name, was.scalars, now.Name, now.scalars)
	}
	for i := range was.Args {
		if !sameView(was.Args[i].Tensor, now.Args[i].Tensor) {
			return fmt.Errorf("replay: operation %d, %s, got another tensor: was %v, now %v", t.next, now.Name, was.Args[i].Tensor, now.Args[i].Tensor)
		}
	}
	return nil
}
