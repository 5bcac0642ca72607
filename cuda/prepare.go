package cuda

import (
	"errors"

	"blitzen/device"
)

// Prepare implements device.Device: programs that the operations need are
// compiled side by side, and cuBLASLt's plans made. Without it each operation
// would wait for its own when it is first issued.
func (d *gpu) Prepare(fn func(*device.Ops)) error {
	leave, err := d.enter()
	if err != nil {
		return err
	}
	defer leave()
	if d.recording != nil {
		return errors.New("cuda: Prepare inside Record")
	}
	wanted := map[string]program{}
	d.kernels.plan = func(p program) { wanted[p.key()] = p }
	err = errors.Join(d.issue(fn, nil), d.kernels.fetch(&landing{}, 0, 0)) // what a step gives is fetched
	d.kernels.plan = nil
	if err != nil {
		return err
	}
	return d.keep(d.kernels.programs.ready(wanted))
}
