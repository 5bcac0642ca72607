//go:build goexperiment.simd && amd64 && !race

package host

import "simd/archsimd"

// clearUpperBits makes Go's floating-point functions on this thread fast again:
// while the upper halves of vector registers are in use they are some 45 times
// slower. GoMLX's vector code leaves them so, and in a build with
// GOEXPERIMENT=simd so does every preemption of a goroutine (Go 1.26).
func clearUpperBits() { archsimd.ClearAVXUpperBits() }
