//go:build !(goexperiment.simd && amd64)

package host

// gomlxFast says whether GoMLX multiplies with vector instructions in this build.
const gomlxFast = false
