//go:build race

package host

// GoMLX's address arithmetic does not pass the pointer checks that come with
// the race detector.
var engines = []Products{ProductsC}
