package cuda

import (
	"errors"
	"fmt"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// card is a GPU that can be used.
type card struct {
	device          driver.Device
	name            string
	capability      int // 90 for 9.0
	multiprocessors int
}

// Cards, by compute capability.
const (
	oldest     = 75 // Turing: F32
	oldestBF16 = 80 // Ampere
	hopper     = 90 // has kernels of its own
)

// sharedMemory is the most dynamic shared memory, in bytes, that a block with 4
// KiB of its own may have.
func (c card) sharedMemory() int {
	switch c.capability {
	case 80, 87:
		return 159 << 10
	case 90, 100, 103:
		return 223 << 10
	}
	return 95 << 10
}

// findCard opens the libraries and looks at the GPU that the options name.
func findCard(opts Options) (card, error) {
	if err := driver.Open(driver.Driver, 0); err != nil {
		return card{}, err
	}
	version, err := driver.Version()
	var failed *driver.Error
	if errors.As(err, &failed) && failed.NoDevice() {
		return card{}, errors.New("there is a driver and no GPU")
	}
	if err != nil {
		return card{}, err
	}
	if version < 12000 {
		return card{}, fmt.Errorf("the driver supports CUDA %d.%d; install one for CUDA 12 or newer", version/1000, version%1000/10)
	}
	c, err := lookAt(opts.Ordinal)
	switch {
	case err != nil:
		return c, err
	case c.capability < oldest:
		return c, fmt.Errorf("%s has compute capability %d.%d; at least %d.%d is needed", c.name, c.capability/10, c.capability%10, oldest/10, oldest%10)
	case opts.DType == device.BF16 && c.capability < oldestBF16:
		return c, fmt.Errorf("%s cannot compute with BF16 (compute capability %d.%d, needs %d.%d); use F32", c.name, c.capability/10, c.capability%10, oldestBF16/10, oldestBF16%10)
	}
	// NVRTC's machine code runs on older drivers of the same generation; cuBLASLt asks for its own.
	if err := driver.Open(driver.Compiler, 0); err != nil {
		return c, err
	}
	return c, driver.Open(driver.BLAS, version/1000)
}

func lookAt(ordinal int) (c card, err error) {
	n, err := driver.Count()
	if err != nil {
		return c, err
	}
	if ordinal < 0 || ordinal >= n {
		return c, fmt.Errorf("there is no GPU %d; there are %d, numbered from 0", ordinal, n)
	}
	if c.device, err = driver.Get(ordinal); err != nil {
		return c, err
	}
	if c.name, err = c.device.Name(); err != nil {
		return c, err
	}
	if c.capability, err = c.device.Capability(); err != nil {
		return c, err
	}
	c.multiprocessors, err = c.device.Multiprocessors()
	return c, err
}
