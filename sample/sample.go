// Package sample holds the settings of token sampling, where each came from,
// and how they reach the device. The sampler itself is Ops.Sample.
package sample

import (
	"fmt"
	"strings"

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
	// Origin names the source of every setting, under its JSON name: one of the
	// constants below.
	Origin map[string]string `json:"source"`
}

// Where a setting came from.
const (
	FromDefault     = "default"
	FromFile        = "generation_config.json"
	FromEnvironment = "environment" // GENERATE_<FLAG>
	FromFlag        = "flag"
	Random          = "random" // a seed that nobody gave
)

// smallest is the least positive setting; the device keeps settings, and what
// it divides by them, in float32.
const smallest = 1e-6

// A FileError is a value of generation_config.json that is out of range.
type FileError struct{ error }

// Validate refuses values out of range, naming the flag, or by a FileError the
// file if the value came from there.
func (s Settings) Validate() error {
	positive := func(v, most float64) bool { return v >= smallest && v <= most }
	for _, c := range []struct {
		field string
		value any
		ok    bool
		want  string
	}{
		{"temperature", s.Temperature, s.Temperature == 0 || positive(s.Temperature, 1e6), "0 (greedy) or 1e-06 to 1e+06"},
		{"top_k", s.TopK, s.TopK >= 0 && s.TopK <= 1<<24, "0 (off) to 16777216"},
		{"top_p", s.TopP, positive(s.TopP, 1), "1e-06 to 1 (off)"},
		{"min_p", s.MinP, s.MinP >= 0 && s.MinP <= 1, "0 (off) to 1"},
		{"repetition_penalty", s.Repetition, positive(s.Repetition, 1e6), "1e-06 to 1e+06; 1 is off"},
	} {
		if c.ok {
			continue
		}
		flag := "--" + strings.ReplaceAll(c.field, "_", "-")
		if s.Origin[c.field] == FromFile {
			return FileError{fmt.Errorf("%s: %s %v: want %s: correct the file, or give %s", FromFile, c.field, c.value, c.want, flag)}
		}
		return fmt.Errorf("%s %v: want %s", flag, c.value, c.want)
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
