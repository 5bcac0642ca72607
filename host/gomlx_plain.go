//go:build !(goexperiment.simd && amd64 && !race)

package host

// gomlxFast says whether GoMLX multiplies with vector instructions in this
// build.
const gomlxFast = false

func clearUpperBits() {}
