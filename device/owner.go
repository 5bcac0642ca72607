package device

// Owner makes tensors and frees them together. The first error sticks, as in
// Ops: later tensors are nil, and Err tells.
type Owner struct {
	Dev     Device
	tensors []*Tensor
	err     error
}

// New is Device.New; nil after an error.
func (o *Owner) New(name string, t DType, shape ...int) *Tensor {
	if o.err != nil {
		return nil
	}
	var v *Tensor
	if v, o.err = o.Dev.New(name, t, shape...); o.err != nil {
		return nil
	}
	o.tensors = append(o.tensors, v)
	return v
}

// Err is the first error of New.
func (o *Owner) Err() error { return o.err }

// Free frees all tensors made. It may be called twice.
func (o *Owner) Free() {
	for _, t := range o.tensors {
		o.Dev.Free(t)
	}
	o.tensors = nil
}
