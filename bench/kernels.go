package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"blitzen/device"
)

// Kernel is the launches of one kernel for operations alike.
type Kernel struct {
	Operation string // with the size of its weight
	Name      string
	Calls     int
	Total     float64 // microseconds of all calls
	// Bytes that the operation moves at least, a call: shown at the longest of
	// its kernels; 0 where they are not known.
	Bytes float64
}

// Mean is the time of a call in microseconds.
func (k Kernel) Mean() float64 { return k.Total / float64(k.Calls) }

// Kernels groups the launches of a pass, longest first. rows is the bytes of
// cache rows that an operation of attention reads, beside representatives; 0
// where it is not known.
func Kernels(launches []device.Launch, rows float64) []Kernel {
	type key struct{ operation, kernel string }
	at := map[key]*Kernel{}
	longest := map[string]*Kernel{} // by operation
	bytes := map[string]float64{}
	var all []*Kernel
	for _, l := range launches {
		k := key{label(l.Call), l.Kernel}
		if at[k] == nil {
			at[k] = &Kernel{Operation: k.operation, Name: k.kernel}
			all = append(all, at[k])
		}
		at[k].Calls++
		at[k].Total += float64(l.Time.Nanoseconds()) / 1e3
		bytes[k.operation] = moved(l.Call, rows)
	}
	for _, k := range all {
		if best := longest[k.Operation]; best == nil || k.Total > best.Total {
			longest[k.Operation] = k
		}
	}
	for operation, k := range longest {
		k.Bytes = bytes[operation]
	}
	slices.SortStableFunc(all, func(a, b *Kernel) int { return cmp.Compare(b.Total, a.Total) })
	out := make([]Kernel, len(all))
	for i, k := range all {
		out[i] = *k
	}
	return out
}

// moved is what an operation moves at least, 0 where it is not known.
func moved(c device.Call, rows float64) float64 {
	has := map[string]bool{}
	for _, a := range c.Args {
		has[a.Name] = a.Tensor != nil
	}
	switch attends := has["k"] && has["out"]; {
	case attends && rows == 0:
		return 0
	case attends:
		return float64(c.Bytes()) + rows
	}
	return float64(c.Bytes())
}

// label is an operation's name with the size of its weight: operations of one
// name differ most in that. Several that one kernel does have their names alone.
func label(c device.Call) string {
	outs, in := 0, 0
	seen := map[*device.Tensor]bool{}
	for _, a := range c.Args {
		if a.Name == "weight" && a.Tensor != nil && !seen[a.Tensor] && a.Rank() == 2 {
			seen[a.Tensor] = true
			outs, in = outs+a.Shape[0], a.Shape[1]
		}
	}
	if outs == 0 || c.Of > 1 || strings.Contains(c.Name, ", ") { // several operations have several
		return c.Name
	}
	return fmt.Sprintf("%s %d×%d", c.Name, outs, in)
}
