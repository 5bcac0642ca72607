package devicetest

import (
	"math"
	"strings"
	"testing"

	"blitzen/device"
)

// altered is the reference with some of Device's own methods replaced.
type altered struct {
	*reference
	new    func(name string, t device.DType, shape ...int) (*tensor, error)
	free   func(t *tensor)
	upload func(t *tensor, src []byte) error
	fetch  func(t *tensor) device.Pending
	ready  func(fn func(*device.Ops)) error
	run    func(fn func(*device.Ops)) error
	record func(fn func(*device.Ops)) (device.Step, error)
}

func (a altered) New(name string, t device.DType, shape ...int) (*tensor, error) {
	return a.new(name, t, shape...)
}
func (a altered) Free(t *tensor)                                   { a.free(t) }
func (a altered) Upload(t *tensor, src []byte) error               { return a.upload(t, src) }
func (a altered) Fetch(t *tensor) device.Pending                   { return a.fetch(t) }
func (a altered) Prepare(fn func(*device.Ops)) error               { return a.ready(fn) }
func (a altered) Run(fn func(*device.Ops)) error                   { return a.run(fn) }
func (a altered) Record(fn func(*device.Ops)) (device.Step, error) { return a.record(fn) }

// again is a step that runs its function without looking at what it issues.
type again func() error

func (s again) Run() error { return s() }
func (again) Close() error { return nil }

// late is a fetch that copies when it is waited for.
type late struct {
	r *reference
	t *tensor
}

func (l late) Wait(dst []byte) error { return l.r.Fetch(l.t).Wait(dst) }

// deviceMutant is a device that breaks one rule.
type deviceMutant struct {
	rule string
	set  func(r *reference, a *altered)
}

func TestMutantDevicesAreRefused(t *testing.T) {
	for _, m := range deviceMutants() {
		t.Run(m.rule, func(t *testing.T) {
			r := newReference(kernels{}, device.F32)
			a := altered{r, r.New, r.Free, r.Upload, r.Fetch, r.Prepare, r.Run, r.Record}
			m.set(r, &a)
			found := false
			for _, rule := range rules() {
				if strings.HasSuffix(rule.name, "/"+m.rule) {
					found = true
					if rule.check(a) == nil {
						t.Error("passes")
					}
				}
			}
			if !found {
				t.Error("no such rule")
			}
		})
	}
}

func deviceMutants() []deviceMutant {
	return []deviceMutant{
		{"new tensors are zero", func(r *reference, a *altered) {
			a.new = func(name string, t device.DType, shape ...int) (*tensor, error) {
				v, err := r.New(name, t, shape...)
				if err == nil && v.Len() > 0 {
					v.Buffer.(*memory).bytes[0] = 1
				}
				return v, err
			}
		}},
		{"new refuses what cannot be", func(r *reference, a *altered) {
			a.new = func(name string, t device.DType, shape ...int) (*tensor, error) { return r.New(name, device.F32, 1) }
		}},
		{"transfers refuse wrong lengths and gaps", func(r *reference, a *altered) {
			a.upload = func(t *tensor, src []byte) error {
				if dst, err := content(t); err == nil && len(src) < len(dst) {
					copy(dst, src)
					return nil
				}
				return r.Upload(t, src)
			}
		}},
		{"fetch is as of when it was queued", func(r *reference, a *altered) {
			a.fetch = func(t *tensor) device.Pending { return late{r, t} }
		}},
		{"memory is counted", func(r *reference, a *altered) { a.free = func(*tensor) {} }},
		{"the first error sticks", func(r *reference, a *altered) {
			a.run = func(fn func(*device.Ops)) error {
				r.Run(fn)
				return nil
			}
		}},
		{"preparing executes nothing", func(r *reference, a *altered) { a.ready = r.Run }},
		{"recording executes nothing", func(r *reference, a *altered) {
			a.record = func(fn func(*device.Ops)) (device.Step, error) {
				if err := r.Run(fn); err != nil {
					return nil, err
				}
				return r.Record(fn)
			}
		}},
		{"recording reports errors", func(r *reference, a *altered) {
			a.record = func(fn func(*device.Ops)) (device.Step, error) { return again(func() error { return r.Run(fn) }), nil }
		}},
		{"a replay that differs is refused", func(r *reference, a *altered) {
			a.record = func(fn func(*device.Ops)) (device.Step, error) {
				fn(device.NewOps(nil, nil))
				return again(func() error { return r.Run(fn) }), nil
			}
		}},
	}
}

// A step that works on the contents it was recorded with fails every
// comparison of a replay.
func TestRememberedContentsAreRefused(t *testing.T) {
	r := newReference(kernels{}, device.F32)
	a := altered{r, r.New, r.Free, r.Upload, r.Fetch, r.Prepare, r.Run, func(fn func(*device.Ops)) (device.Step, error) {
		return again(func() error { return nil }), r.Run(fn)
	}}
	for _, c := range cases() {
		if strings.HasPrefix(c.name, "Linear/") && c.check(a) == nil {
			t.Errorf("%s passes", c.name)
		}
	}
}

// The frequencies tell a biased draw from a right one.
func TestBiasedDrawsAreRefused(t *testing.T) {
	biased := map[string]func(c *changed){
		"draws/teams are drawn in proportion and corrected": func(c *changed) {
			c.sampleTopK = func(a device.TopKArgs) error {
				a.Phi = edited(a.Phi, times(0.9))
				return kernels{}.SampleTopK(a)
			}
		},
		"draws/tokens, all": func(c *changed) {
			c.sample = func(a device.SampleArgs) error {
				a.Settings = edited(a.Settings, func(i int, v float64) float64 {
					if i == device.SetTemperature {
						return v * 1.1
					}
					return v
				})
				return kernels{}.Sample(a)
			}
		},
	}
	for _, rule := range rules() {
		if set := biased[rule.name]; set != nil {
			if rule.check(newReference(with(set), device.F32)) == nil {
				t.Errorf("%s: passes", rule.name)
			}
			delete(biased, rule.name)
		}
	}
	for name := range biased {
		t.Errorf("no rule %q", name)
	}
}

// Attention that takes what is no number for nothing fails every rule on it.
func TestLostNaNIsRefused(t *testing.T) {
	d := newReference(with(func(c *changed) {
		c.attend = func(a device.AttendArgs) error {
			err := kernels{}.Attend(a)
			for _, x := range []*tensor{a.Out.Out, a.Out.LSE} {
				for _, at := range indices(x.Shape) {
					if math.IsNaN(number(x, at...)) {
						setNumber(x, 0, at...)
					}
				}
			}
			return err
		}
	}), device.F32)
	for _, r := range nanRules() {
		if r.check(d) == nil {
			t.Errorf("%s: passes", r.name)
		}
	}
}
