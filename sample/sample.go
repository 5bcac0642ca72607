// Package sample holds the settings of token sampling, where each came from,
// and how they reach the device. The sampler itself is Ops.Sample.
package sample

import (
	"fmt"
	"math"

	"blitzen/device"
)

// Settings say how the next token is drawn. The zero value of Origin means the
// neutral default.
type Settings struct {
	Temperature float64 `json:"temperature"`        // 0: greedy
	TopK        int     `json:"top_k"`              // 0: off
	TopP        float64 `json:"top_p"`              // 1: off
	MinP        float64 `json:"min_p"`              // 0: off
	Repetition  float64 `json:"repetition_penalty"` // 1: off
	Seed        uint64  `json:"seed"`
	// Origin names the source of every setting: "default",
	// "generation_config.json" or "flag".
	Origin map[string]string `json:"source"`
}

// Validate refuses values out of range, naming the flag.
func (s Settings) Validate() error {
	for _, c := range []struct {
		flag  string
		value float64
		ok    bool
		want  string
	}{
		{"--temperature", s.Temperature, s.Temperature >= 0, "0 (greedy) or more"},
		{"--top-k", float64(s.TopK), s.TopK >= 0 && s.TopK <= 1<<24, "0 (off) or more"},
		{"--top-p", s.TopP, s.TopP > 0 && s.TopP <= 1, "above 0, at most 1 (off)"},
		{"--min-p", s.MinP, s.MinP >= 0 && s.MinP <= 1, "from 0 (off) to 1"},
		{"--repetition-penalty", s.Repetition, s.Repetition > 0, "above 0; 1 is off"},
	} {
		if !c.ok || math.IsInf(c.value, 0) {
			return fmt.Errorf("%s %v: want %s", c.flag, c.value, c.want)
		}
	}
	return nil
}

// Greedy reports whether the most probable token is always taken.
func (s Settings) Greedy() bool { return s.Temperature == 0 || s.TopK == 1 }

// Tensor is the settings as Ops.Sample reads them, [device.NumSettings].
func (s Settings) Tensor() []float32 {
	v := make([]float32, device.NumSettings)
	v[device.SetTemperature] = float32(s.Temperature)
	v[device.SetTopK] = float32(s.TopK)
	v[device.SetTopP] = float32(s.TopP)
	v[device.SetMinP] = float32(s.MinP)
	v[device.SetRepetition] = float32(s.Repetition)
	return v
}

// Greedy takes the most probable token.
func Greedy() Settings { return Settings{TopP: 1, Repetition: 1} }
