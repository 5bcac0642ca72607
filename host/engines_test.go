//go:build !race

package host

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"blitzen/host/kernels"
)

var engines = []Products{ProductsC, ProductsGoMLX}

// The kernels for other processors must pass as well. The choice is made when
// the program starts, hence another process.
func TestInstructionSets(t *testing.T) {
	for _, isa := range []string{"avx2", "portable"} {
		t.Run(isa, func(t *testing.T) {
			t.Parallel()
			child := exec.Command(os.Args[0], "-test.run=^(TestSuite|TestEngines|TestNamesInstructionSet)$", "-test.v")
			child.Env = append(os.Environ(), "BLITZEN_ISA="+isa)
			out, err := child.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if best := kernels.ISA(); best != "portable" && !strings.Contains(string(out), "instruction set "+isa) {
				t.Errorf("with BLITZEN_ISA=%s on a processor with %s the tests ran on something else", isa, best)
			}
		})
	}
}
