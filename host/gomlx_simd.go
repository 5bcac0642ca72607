//go:build goexperiment.simd && amd64 && !race

package host

import "simd/archsimd"

// gomlxFast says whether GoMLX multiplies with vector instructions in this
// build. With -race it must not be used at all: its address arithmetic does not
// pass the pointer checks that come with the race detector.
const gomlxFast = true

// clearUpperBits makes Go's floating-point functions on this thread fast again:
// while the upper halves of vector registers are in use they are some 45 times
// slower. GoMLX's vector code leaves them so, and in a build with
// GOEXPERIMENT=simd so does every preemption of a goroutine (Go 1.26).
func clearUpperBits() { archsimd.ClearAVXUpperBits() }
