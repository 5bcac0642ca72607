package devicetest

import "blitzen/device"

// AttendTeams is the chain of operations that it fuses; what passes between
// them is rounded to F32.
func (k kernels) AttendTeams(a device.TeamsArgs) error { return attendTeams(k, a) }

func attendTeams(k device.Kernels, a device.TeamsArgs) error {
	steps, err := device.NewTeamsSteps(a, newReference(nil, device.F32).New)
	if err != nil {
		return err
	}
	return device.AttendTeamsBySteps(k, a, steps)
}
