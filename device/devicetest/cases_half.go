package devicetest

import (
	"strings"

	"blitzen/device"
)

// halfCases are cases of attention and Copy with F16 in place of the device's own
// type: all of Copy, and of the others every second one, for time.
func halfCases() []testCase {
	var cs []testCase
	count := map[string]int{}
	for _, list := range [][]testCase{mathCases(), attendCases(), selectCases(), teamsCases()} {
		for _, c := range list {
			operation, _, _ := strings.Cut(c.name, "/")
			count[operation]++
			switch operation {
			case "Attend", "Merge", "Route", "AttendSelected", "AttendTeams":
				if count[operation]%2 == 0 {
					continue
				}
			case "Copy":
			default:
				continue
			}
			if c.name == "Copy/imported" { // a checkpoint's types have cases of their own
				continue
			}
			run := c.run
			cs = append(cs, testCase{c.name + ", F16", func(b *bench) {
				b.types.act = device.F16
				run(b)
			}})
		}
	}
	return append(cs, testCase{"Copy/limits of F16", copyHalfLimits})
}

// copyHalfLimits narrows numbers beside the largest and the smallest of F16, and
// widens what comes of them.
func copyHalfLimits(b *bench) {
	values := []float64{65504, 65519, 65520, -1e30, 0x1p-14, 0x1p-15 + 0x1p-26, 0x1p-24, 0x1.8p-25, 0x1p-25, -0x1p-30, 0x3.5p-24}
	src := b.exactly("src", device.F32, values, len(values))
	dst, back := b.exactly("dst", device.F16, make([]float64, len(values)), len(values)), b.blank("back", device.F32, len(values))
	b.want("dst", dst, tolerance{})
	b.want("back", back, tolerance{})
	b.run(func(o *device.Ops) {
		o.Copy(dst, src)
		o.Copy(back, dst)
	})
}
