package cuda

import (
	"bytes"
	"testing"
)

func TestCopyParallel(t *testing.T) {
	for _, n := range []int{0, 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<20 + 3} {
		src := make([]byte, n)
		for i := range src {
			src[i] = byte(i * 7 >> 3)
		}
		dst := bytes.Repeat([]byte{0xAA}, n+1)
		copyParallel(dst[:n], src)
		if !bytes.Equal(dst[:n], src) || dst[n] != 0xAA {
			t.Errorf("%d bytes were not copied", n)
		}
	}
}
