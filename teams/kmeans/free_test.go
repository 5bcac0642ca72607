package kmeans

import (
	"errors"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// TestFitFreesOnError fails each call to the device in turn, with a view whose
// rows are copied together first.
func TestFitFreesOnError(t *testing.T) {
	checkFrees(t, 12, 3, func(dev device.Device, x *device.Tensor) error {
		_, err := fitOne(dev, x.Slice(1, 0, 2), 4)
		return err
	})
}

func checkFrees(t *testing.T, n, d int, use func(device.Device, *device.Tensor) error) {
	t.Helper()
	rng := newMT19937(5)
	values := make([]float32, n*d)
	for i := range values {
		values[i] = float32(rng.double())
	}
	err, failAt := errFailing, 0
	for errors.Is(err, errFailing) {
		failAt++
		dev := &failing{Device: devicetest.NewReference()}
		x := upload(t, dev, values, n, d)
		dev.calls, dev.failAt = 0, failAt
		err = use(dev, x)
		if used := dev.Memory().Used; used != int64(x.Bytes()) {
			t.Fatalf("call %d: %d bytes stay on the device", failAt, used-int64(x.Bytes()))
		}
		if err == nil && dev.calls >= failAt {
			t.Fatalf("the error of call %d was lost", failAt)
		}
	}
	if err != nil {
		t.Fatalf("call %d: %v", failAt, err)
	}
}

var errFailing = errors.New("the device fails")

// failing is a device whose failAt-th call is an error.
type failing struct {
	device.Device
	calls, failAt int
}

func (f *failing) fails() bool { f.calls++; return f.calls == f.failAt }

func (f *failing) New(name string, t device.DType, shape ...int) (*device.Tensor, error) {
	if f.fails() {
		return nil, errFailing
	}
	return f.Device.New(name, t, shape...)
}

func (f *failing) Upload(t *device.Tensor, src []byte) error {
	if f.fails() {
		return errFailing
	}
	return f.Device.Upload(t, src)
}

func (f *failing) Run(fn func(*device.Ops)) error {
	if f.fails() {
		return errFailing
	}
	return f.Device.Run(fn)
}

func (f *failing) Fetch(t *device.Tensor) device.Pending {
	if f.fails() {
		return lost{}
	}
	return f.Device.Fetch(t)
}

type lost struct{}

func (lost) Wait([]byte) error { return errFailing }
