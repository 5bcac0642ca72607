package host

import (
	"unsafe"

	"blitzen/device"
)

// AttendTeams implements device.Kernels by the operations that it fuses: on the
// host a memory pass between them costs little.
func (k *hostKernels) AttendTeams(a device.TeamsArgs) error {
	tokens, heads := a.Q.Shape[0], a.Q.Shape[1]
	need := tokens * heads * (a.Reps.Shape[1] + 2*a.Drawn + 2*(a.V.Shape[2]+1))
	mem, err := k.steps.floats(need)
	if err != nil {
		return err
	}
	steps, err := device.NewTeamsSteps(a, func(name string, t device.DType, shape ...int) (*device.Tensor, error) {
		v := device.NewTensor(name, t, &buffer{mem: unsafe.Pointer(mem)}, shape...)
		mem = shift(mem, v.Len())
		return v, nil
	})
	if err != nil {
		return err
	}
	return device.AttendTeamsBySteps(k, a, steps)
}
