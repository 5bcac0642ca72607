package driver

/*
#include "shim.h"
*/
import "C"

import (
	"time"
	"unsafe"
)

// Stream is a queue of work.
type Stream struct{ ptr unsafe.Pointer }

const (
	streamNonBlocking  = 1 // has nothing to do with the default stream
	eventDefault       = 0
	eventDisableTiming = 2
	captureRelaxed     = 2 // memory may be allocated and modules loaded meanwhile
)

// NewStream makes a stream.
func NewStream() (Stream, error) {
	var s Stream
	err := check("cuStreamCreate", C.shim_cuStreamCreate(&s.ptr, streamNonBlocking))
	return s, err
}

// Destroy ends the stream.
func (s Stream) Destroy() error { return check("cuStreamDestroy", C.shim_cuStreamDestroy_v2(s.ptr)) }

// Wait blocks until all work queued so far is done.
func (s Stream) Wait() error { return check("cuStreamSynchronize", C.shim_cuStreamSynchronize(s.ptr)) }

// Event is a mark in a stream.
type Event struct{ ptr unsafe.Pointer }

// NewEvent makes an event; timed ones can be given to Elapsed.
func NewEvent(timed bool) (Event, error) {
	flags := C.uint(eventDisableTiming)
	if timed {
		flags = eventDefault
	}
	var e Event
	err := check("cuEventCreate", C.shim_cuEventCreate(&e.ptr, flags))
	return e, err
}

// Destroy ends the event.
func (e Event) Destroy() error { return check("cuEventDestroy", C.shim_cuEventDestroy_v2(e.ptr)) }

// Record puts the mark after all work queued so far.
func (e Event) Record(s Stream) error {
	return check("cuEventRecord", C.shim_cuEventRecord(e.ptr, s.ptr))
}

// Wait blocks until the stream has passed the mark.
func (e Event) Wait() error { return check("cuEventSynchronize", C.shim_cuEventSynchronize(e.ptr)) }

// Elapsed is the time from one mark to a later one, both passed.
func Elapsed(from, to Event) (time.Duration, error) {
	var ms C.float
	err := check("cuEventElapsedTime", C.shim_cuEventElapsedTime(&ms, from.ptr, to.ptr))
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// Capture begins to collect the work that is queued instead of doing it. It
// ends on the same thread.
func (s Stream) Capture() error {
	return check("cuStreamBeginCapture", C.shim_cuStreamBeginCapture_v2(s.ptr, captureRelaxed))
}

// EndCapture returns the collected work, ready to be launched.
func (s Stream) EndCapture() (Graph, error) {
	var graph unsafe.Pointer
	if err := check("cuStreamEndCapture", C.shim_cuStreamEndCapture(s.ptr, &graph)); err != nil {
		return Graph{}, err
	}
	defer C.shim_cuGraphDestroy(graph)
	var g Graph
	err := check("cuGraphInstantiate", C.shim_cuGraphInstantiateWithFlags(&g.exec, graph, 0))
	if err == nil {
		err = check("cuGraphUpload", C.shim_cuGraphUpload(g.exec, s.ptr))
	}
	return g, err
}

// Graph is recorded work.
type Graph struct{ exec unsafe.Pointer }

// Launch queues the work.
func (g Graph) Launch(s Stream) error {
	return check("cuGraphLaunch", C.shim_cuGraphLaunch(g.exec, s.ptr))
}

// Destroy ends the graph; launches under way finish.
func (g Graph) Destroy() error { return check("cuGraphExecDestroy", C.shim_cuGraphExecDestroy(g.exec)) }
