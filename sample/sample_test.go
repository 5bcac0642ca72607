package sample

import (
	"encoding/json"
	"math"
	"testing"

	"blitzen/device"

	"pgregory.net/rapid"
)

func TestValidate(t *testing.T) {
	neutral := Settings{Temperature: 1, TopP: 1, Repetition: 1}
	for _, ok := range []func(s *Settings){
		func(s *Settings) {},
		func(s *Settings) { *s = Greedy() },
		func(s *Settings) { s.Temperature, s.TopK, s.TopP, s.MinP, s.Repetition = 1e-6, 1, 1e-6, 1, 1e-6 },
		func(s *Settings) { s.Temperature, s.TopK, s.Repetition = 1e6, 1<<24, 1e6 },
	} {
		s := neutral
		ok(&s)
		if err := s.Validate(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for _, c := range []struct {
		bad  func(s *Settings)
		want string
	}{
		{func(s *Settings) { s.Temperature = -1 }, "--temperature -1: want 0 (greedy) or 1e-06 to 1e+06"},
		{func(s *Settings) { s.Temperature = 1e-42 }, "--temperature 1e-42: want 0 (greedy) or 1e-06 to 1e+06"},
		{func(s *Settings) { s.Temperature = math.NaN() }, "--temperature NaN: want 0 (greedy) or 1e-06 to 1e+06"},
		{func(s *Settings) { s.Temperature = math.Inf(1) }, "--temperature +Inf: want 0 (greedy) or 1e-06 to 1e+06"},
		{func(s *Settings) { s.TopK = -1 }, "--top-k -1: want 0 (off) to 16777216"},
		{func(s *Settings) { s.TopK = 1<<24 + 1 }, "--top-k 16777217: want 0 (off) to 16777216"},
		{func(s *Settings) { s.TopP = 0 }, "--top-p 0: want 1e-06 to 1 (off)"},
		{func(s *Settings) { s.TopP = 1.5 }, "--top-p 1.5: want 1e-06 to 1 (off)"},
		{func(s *Settings) { s.MinP = -0.1 }, "--min-p -0.1: want 0 (off) to 1"},
		{func(s *Settings) { s.MinP = math.NaN() }, "--min-p NaN: want 0 (off) to 1"},
		{func(s *Settings) { s.Repetition = 0 }, "--repetition-penalty 0: want 1e-06 to 1e+06; 1 is off"},
		{func(s *Settings) { s.Repetition = 0; s.Origin = map[string]string{"repetition_penalty": FromFile} },
			"generation_config.json: repetition_penalty 0: want 1e-06 to 1e+06; 1 is off: correct the file, or give --repetition-penalty"},
		{func(s *Settings) {
			s.TopP = 2
			s.Origin = map[string]string{"top_p": FromEnvironment, "top_k": FromFile}
		}, "--top-p 2: want 1e-06 to 1 (off)"},
	} {
		s := neutral
		c.bad(&s)
		if err := s.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", s, err, c.want)
		}
	}
}

func TestGreedy(t *testing.T) {
	for _, c := range []struct {
		s    Settings
		want bool
	}{
		{Greedy(), true},
		{Settings{Temperature: 1, TopK: 1}, true},
		{Settings{Temperature: 0.1, TopK: 2}, false},
		{Settings{Temperature: 1}, false},
	} {
		if got := c.s.Greedy(); got != c.want {
			t.Errorf("%+v: greedy is %v", c.s, got)
		}
	}
}

// What passes Validate is finite on the device, and off exactly where it is
// off in the settings.
func TestTensor(t *testing.T) {
	number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 2), rapid.SampledFrom([]float64{0, 1, 1e-6, 1e6}))
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{
			Temperature: number.Draw(t, "temperature"), TopK: rapid.IntRange(-1, 1<<30).Draw(t, "k"), TopP: number.Draw(t, "p"),
			MinP: number.Draw(t, "min"), Repetition: number.Draw(t, "repetition"),
		}
		if s.Validate() != nil {
			return
		}
		v := s.Tensor()
		if len(v) != device.NumSettings {
			t.Fatalf("%d settings", len(v))
		}
		for i, x := range v {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Errorf("setting %d of %+v is %v", i, s, x)
			}
		}
		if (v[device.SetTemperature] == 0) != (s.Temperature == 0) || (v[device.SetTopK] == 0) != (s.TopK == 0) ||
			v[device.SetTopP] <= 0 || v[device.SetRepetition] <= 0 || s.TopP == 1 && v[device.SetTopP] != 1 {
			t.Errorf("%+v becomes %v", s, v)
		}
	})
}

// The names are an interface: programs read them.
func TestJSON(t *testing.T) {
	s := Settings{Temperature: 0.5, TopK: 3, TopP: 0.9, MinP: 0.1, Repetition: 1.1, Seed: math.MaxUint64, Origin: map[string]string{"top_k": FromFlag}}
	got, err := json.Marshal(s)
	const want = `{"temperature":0.5,"top_k":3,"top_p":0.9,"min_p":0.1,"repetition_penalty":1.1,"seed":18446744073709551615,"source":{"top_k":"flag"}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}
