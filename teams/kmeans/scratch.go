package kmeans

import "blitzen/device"

// scratch owns tensors of one call. The first error sticks, as in device.Ops.
type scratch struct {
	dev     device.Device
	tensors []*device.Tensor
	err     error
}

func (s *scratch) new(name string, t device.DType, shape ...int) *device.Tensor {
	if s.err != nil {
		return nil
	}
	var v *device.Tensor
	if v, s.err = s.dev.New(name, t, shape...); s.err != nil {
		return nil
	}
	s.tensors = append(s.tensors, v)
	return v
}

func (s *scratch) free() {
	for _, t := range s.tensors {
		s.dev.Free(t)
	}
	s.tensors = nil
}
