package device_test

import (
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

func TestTransfers(t *testing.T) {
	d := devicetest.NewReference()
	transfer(t, d, device.F32, []float32{1.5, -2})
	transfer(t, d, device.I32, []int32{-1, 2})
	transfer(t, d, device.U32, []uint32{1 << 31, 2})
	transfer(t, d, device.I64, []int64{-1 << 40, 2})
	transfer(t, d, device.I32, []int32{})
}

func transfer[T device.Element](t *testing.T, d device.Device, dt device.DType, values []T) {
	t.Helper()
	x, err := d.New("x", dt, len(values))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(x)
	if err := device.Write(d, x, values); err != nil {
		t.Fatal(err)
	}
	got, err := device.Read[T](d, x)
	if err != nil || !slices.Equal(got, values) {
		t.Errorf("read %v, %v; want %v", got, err, values)
	}
	again := make([]T, len(values))
	if err := device.Collect(d.Fetch(x), again); err != nil || !slices.Equal(again, values) {
		t.Errorf("collected %v, %v; want %v", again, err, values)
	}
}

func TestTransfersRefuseAnotherType(t *testing.T) {
	d := devicetest.NewReference()
	x, err := d.New("x", device.BF16, 2)
	if err != nil {
		t.Fatal(err)
	}
	const want = "x BF16[2] does not hold float32"
	if err := device.Write(d, x, []float32{1}); err == nil || err.Error() != want {
		t.Errorf("Write: %v, want %s", err, want)
	}
	if _, err := device.Read[float32](d, x); err == nil || err.Error() != want {
		t.Errorf("Read: %v, want %s", err, want)
	}
}

func TestWriteSeed(t *testing.T) {
	d := devicetest.NewReference()
	x, err := d.New("x", device.U32, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := device.WriteSeed(d, x, 5<<32|7); err != nil {
		t.Fatal(err)
	}
	if got, err := device.Read[uint32](d, x); err != nil || !slices.Equal(got, []uint32{7, 5}) {
		t.Errorf("read %v, %v; want the low word first", got, err)
	}
}

// Columns of a matrix in bfloat16: values beside them stay, and 1 + 2⁻⁹ is
// rounded to 8 bits.
func TestFloats(t *testing.T) {
	d := devicetest.NewReference()
	x, err := d.New("x", device.BF16, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := device.WriteFloats(d, x.Slice(1, 1, 3), []float32{1 + 0x1p-9, 2, 3, 4}); err != nil {
		t.Fatal(err)
	}
	if got, err := device.ReadFloats(d, x); err != nil || !slices.Equal(got, []float32{0, 1, 2, 0, 3, 4}) {
		t.Errorf("read %v, %v", got, err)
	}
	if got, err := device.ReadFloats(d, x.Slice(1, 2, 3)); err != nil || !slices.Equal(got, []float32{2, 4}) {
		t.Errorf("read of the last column %v, %v", got, err)
	}
	if err := device.WriteFloats(d, x, []float32{1}); err == nil {
		t.Error("one number was written to six")
	}
}
