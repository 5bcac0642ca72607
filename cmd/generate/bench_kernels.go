package main

import (
	"fmt"

	"blitzen/bench"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/sample"
)

// kernelRow is one kernel in a pass whose kernels were launched one after
// another.
type kernelRow struct {
	machine
	Test      string  `json:"test"`
	Attention string  `json:"attention"`
	Operation string  `json:"operation"`
	Kernel    string  `json:"kernel"`
	Calls     int     `json:"calls"`
	MeanUS    float64 `json:"mean_us"`
	TotalUS   float64 `json:"total_us"`
	Percent   float64 `json:"percent"` // of all kernels of the pass
	CallBytes float64 `json:"bytes_per_call,omitempty"`
	CopyShare float64 `json:"copy_percent,omitempty"`
}

var kernelColumns = []column[kernelRow]{
	{"operation", func(r kernelRow) string { return r.Operation }},
	{"kernel", func(r kernelRow) string { return r.Kernel }},
	{"calls", func(r kernelRow) string { return fmt.Sprint(r.Calls) }},
	{"mean µs", func(r kernelRow) string { return fmt.Sprintf("%.2f", r.MeanUS) }},
	{"total µs", func(r kernelRow) string { return fmt.Sprintf("%.1f", r.TotalUS) }},
	{"%", func(r kernelRow) string { return fmt.Sprintf("%.1f", r.Percent) }},
	{"MB a call", func(r kernelRow) string { return known("%.3f", r.CallBytes/1e6) }},
	{"% of copies", func(r kernelRow) string { return known("%.1f", r.CopyShare) }},
}

// stepKernels times the kernels of a decode step; an operation of attention
// reads so many bytes of cache rows.
func (m *modelBench) stepKernels(s *decode.Session, of *benchRow, rows float64) error {
	return s.Inspect(func(step func(*device.Ops)) error {
		return m.profile(of, rows, func() error { return m.Device.Run(step) })
	})
}

// prefillKernels times those of a prompt.
func (m *modelBench) prefillKernels(v visit, ids []int32) error {
	s, err := m.session(decode.Options{Capacity: v.rows(), Sampling: sample.Greedy()})
	if err != nil {
		return err
	}
	defer s.Close()
	of := &benchRow{Test: fmt.Sprintf("pp%d", v.depth), Attention: "dense"}
	if v.more > 0 {
		if err := s.Prefill(m.cmd.Context(), ids[:v.depth], nil); err != nil {
			return err
		}
		ids, of.Test = ids[v.depth:], fmt.Sprintf("pp%d @ d%d", v.more, v.depth)
	}
	return m.profile(of, 0, func() error { return s.Prefill(m.cmd.Context(), ids, nil) })
}

// profile times the kernels of one pass for the table.
func (m *modelBench) profile(of *benchRow, rows float64, pass func() error) error {
	launches, err := m.Device.(device.Profiler).Profile(pass, nil)
	if err != nil {
		return err
	}
	kernels := bench.Kernels(launches, rows)
	total := 0.0
	for _, k := range kernels {
		total += k.Total
	}
	least, err := m.least()
	if err != nil {
		return err
	}
	t := table[kernelRow]{
		notes:   []string{fmt.Sprintf("By this measure a kernel that does next to nothing takes %.2f µs: marks, and that it waits for the one ahead.", least)},
		title:   fmt.Sprintf("Kernels of %s, %s: %d launches one after another, %.3f ms in all", of.Test, of.Attention, len(launches), total/1e3),
		columns: kernelColumns,
	}
	for _, k := range kernels {
		t.rows = append(t.rows, kernelRow{
			machine: m.on, Test: of.Test, Attention: of.Attention, Operation: k.Operation, Kernel: k.Name, Calls: k.Calls,
			MeanUS: k.Mean(), TotalUS: k.Total, Percent: 100 * k.Total / total, CallBytes: k.Bytes, CopyShare: m.on.copyShare(k.Bytes, k.Mean()),
		})
	}
	m.kernels = append(m.kernels, t)
	return nil
}

// least is the mean time of a kernel that does next to nothing, in microseconds.
func (m *modelBench) least() (float64, error) {
	const calls = 20
	one, err := m.Device.New("bench.one", device.I32, 1)
	if err != nil {
		return 0, err
	}
	defer m.Device.Free(one)
	launches, err := m.Device.(device.Profiler).Profile(func() error {
		return m.Device.Run(func(ops *device.Ops) {
			for range calls {
				ops.Increment(one)
			}
		})
	}, nil)
	if err != nil {
		return 0, err
	}
	return bench.Kernels(launches, 0)[0].Mean(), nil
}
