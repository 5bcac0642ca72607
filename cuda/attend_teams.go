package cuda

import (
	"blitzen/cuda/driver"
	"blitzen/device"
)

// AttendTeams implements device.Kernels by the operations that it fuses. What
// passes between them lies in a block of its own: each of them takes the scratch
// block anew.
func (k *kernels) AttendTeams(a device.TeamsArgs) error {
	var made []*buffer
	total := 0
	steps, err := device.NewTeamsSteps(a, func(name string, t device.DType, shape ...int) (*device.Tensor, error) {
		v := device.NewTensor(name, t, nil, shape...)
		b := &buffer{at: driver.Address(total), size: v.Bytes()}
		v.Buffer = b
		made = append(made, b)
		total += (v.Bytes() + align - 1) / align * align
		return v, nil
	})
	if err != nil {
		return err
	}
	if k.plan == nil {
		block, err := k.gpu.steps.take(total, k.gpu.recording != nil)
		if err != nil {
			return k.gpu.explain(err, total)
		}
		k.use(block)
		for _, b := range made {
			b.at += block.at
		}
	}
	return device.AttendTeamsBySteps(k, a, steps)
}
