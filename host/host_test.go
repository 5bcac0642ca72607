package host

import (
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

func open(t *testing.T, opts Options) device.Device {
	t.Helper()
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestSuite(t *testing.T) {
	for name, products := range map[string]Products{"gomlx": ProductsGoMLX, "c": ProductsC} {
		t.Run(name, func(t *testing.T) {
			devicetest.Suite(t, func(t *testing.T) device.Device {
				return open(t, Options{CheckReplay: true, Threads: 3, Products: products})
			})
		})
	}
}
