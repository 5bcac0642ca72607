package device

import "time"

// Profiler is a Device with instruments to measure its own work. Nothing is
// computed in another way for it: a device that lacks them is timed from
// outside.
type Profiler interface {
	Device
	// Stopwatch makes a clock that runs with the device's work. The caller
	// closes it.
	Stopwatch() (Stopwatch, error)
	// Profile times every kernel that fn has the device launch, each after the
	// one ahead of it has ended. Operations count that fn runs, not those that it
	// records. ahead, if not nil, runs before every kernel, outside of its time;
	// it may issue operations without intermediate results: Increment, Copy.
	Profile(fn, ahead func() error) ([]Launch, error)
	// CopyRate measures the bytes that large copies inside the device's memory
	// read and write in a second.
	CopyRate() (float64, error)
}

// Stopwatch takes times in the order of a device's work. Start and Stop do not
// wait for it.
type Stopwatch interface {
	Start() error
	Stop() error
	// Laps waits for the device and returns the times between every Start and
	// its Stop since it was last called.
	Laps() ([]time.Duration, error)
	Close() error
}

// Launch is a kernel that Profile saw.
type Launch struct {
	Kernel string
	Time   time.Duration
	Call   Call // the operation that it is part of
	Number int  // of that operation, from 0

	Blocks, Threads int // blocks, threads of each
	Registers       int // of a thread; 0 where they are not known
	Shared          int // bytes of a block, those that the launch asks for
	// Occupancy is the share of a multiprocessor's threads that the kernel has at
	// work, as far as registers, shared memory and its number of blocks allow.
	Occupancy float64
}

// Call is an operation with its tensors.
type Call struct {
	Name string
	Args []Arg
	// Read of Of weights are read: some rows of a table, some of many experts.
	Read, Of int
}

// Arg is a tensor, nil where an optional one is left out, under the name that
// the operation's checks have for it.
type Arg struct {
	Name string
	*Tensor
}

// weightArgs are the names of arguments that come from a checkpoint; cacheArgs
// those that are read in places, which depend on positions; of partArgs only a part
// is read.
var (
	weightArgs = map[string]bool{"weight": true, "bias": true, "gamma": true, "gate": true, "table": true, "w": true, "expert": true}
	partArgs   = map[string]bool{"table": true, "expert": true}
	cacheArgs  = map[string]bool{"k": true, "v": true, "keys": true, "values": true, "cache": true, "slots": true, "seen": true}
)

// WeightBytes is what the operation reads of the model's weights, each once: of
// a table the rows that are looked up, of experts as many as the tokens choose
// at most.
func (c Call) WeightBytes() int64 {
	var whole, part int64
	for i, a := range c.Args {
		if a.Tensor == nil || !weightArgs[a.Name] || c.repeats(i) {
			continue
		}
		n := int64(a.Bytes())
		if a.Scale != nil {
			n += int64(a.Scale.Bytes())
		}
		if partArgs[a.Name] {
			part += n
		} else {
			whole += n
		}
	}
	return whole + part*int64(c.Read)/int64(max(c.Of, 1))
}

// Bytes is WeightBytes and activations, each once. Rows of a cache are left
// out: see attention.Access.
func (c Call) Bytes() int64 {
	n := c.WeightBytes()
	for i, a := range c.Args {
		if a.Tensor != nil && !weightArgs[a.Name] && !cacheArgs[a.Name] && !c.repeats(i) {
			n += int64(a.Bytes())
		}
	}
	return n
}

// repeats reports whether argument i is a view that came before.
func (c Call) repeats(i int) bool {
	for _, a := range c.Args[:i] {
		if sameView(a.Tensor, c.Args[i].Tensor) {
			return true
		}
	}
	return false
}

// Calls lists the operations that fn issues, checked and not executed, and
// returns the first error.
func Calls(fn func(*Ops)) ([]Call, error) {
	var t Trace
	ops := NewOps(nil, &t)
	fn(ops)
	return t.Calls(), ops.Err()
}
