package rope

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"blitzen/internal/golden"
	"blitzen/model"

	"pgregory.net/rapid"
)

const testdata = "../../testdata/models/"

// read is the encoding that a config.json gives.
func read(t testing.TB, config string, dim int) (Encoding, error) {
	t.Helper()
	f, err := model.ParseFields("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	e := Read(f, dim)
	return e, f.Err()
}

func mustRead(t testing.TB, config string, dim int) Encoding {
	t.Helper()
	e, err := read(t, config, dim)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// expected are the numbers that transformers printed for a checkpoint.
type expected struct {
	InvFreq []float64 `json:"inv_freq"`
	Factor  float64   `json:"rope_cos_sin_factor"`
	Softmax float64   `json:"softmax_scale"`
	Short   *expected
}

func TestGolden(t *testing.T) {
	paths, err := filepath.Glob(testdata + "*/golden.json")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%d goldens: %v", len(paths), err)
	}
	for _, path := range paths {
		var want expected
		golden.JSON(t, path, &want)
		for _, config := range []string{"config.json", "config.v5.json"} {
			checkGolden(t, filepath.Join(filepath.Dir(path), config), want)
		}
		if want.Short != nil {
			checkGolden(t, filepath.Join(filepath.Dir(path), "config.short.json"), *want.Short)
		}
	}
}

func checkGolden(t *testing.T, path string, want expected) {
	f, err := model.ReadFields(path)
	if err != nil {
		t.Fatal(err)
	}
	e := Read(f, 2*len(want.InvFreq))
	if f.Err() != nil || len(e.InvFreq) != len(want.InvFreq) {
		t.Fatalf("%s: %d frequencies, %v", path, len(e.InvFreq), f.Err())
	}
	for i, w := range want.InvFreq {
		// transformers has θ^(2i/d) in float32: the exponent's rounding, 2⁻²⁴, times
		// ln θ ≤ 14, and a few roundings more.
		if got := float64(e.InvFreq[i]); math.Abs(got-w) > 1e-6*w {
			t.Errorf("%s: frequency %d is %v, want %v", path, i, got, w)
		}
	}
	if float32(want.Factor) != e.Scale {
		t.Errorf("%s: cos and sin are multiplied by %v, want %v", path, e.Scale, want.Factor)
	}
	scale := 1.0 // of the softmax, times √d
	if f.Has("qk_nope_head_dim") {
		scale = want.Softmax * math.Sqrt(float64(f.Int("qk_nope_head_dim", 1, 1000)+f.Int("qk_rope_head_dim", 1, 1000)))
	}
	if math.Abs(e.SoftmaxScale-scale) > 1e-12 {
		t.Errorf("%s: softmax scale %v, want %v", path, e.SoftmaxScale, scale)
	}
}

// Both spellings say the same, apart or side by side.
func TestSpellings(t *testing.T) {
	const numbers = `"factor": 4.0, "original_max_position_embeddings": 32768`
	want := mustRead(t, `{"rope_theta": 1000000.0, "rope_scaling": {"type": "yarn", `+numbers+`}}`, 16)
	for _, config := range []string{
		`{"rope_theta": 1000000.0, "rope_scaling": {"rope_type": "yarn", ` + numbers + `}}`,
		`{"rope_theta": 1000000.0, "rope_scaling": {"rope_type": "yarn", "type": "yarn", ` + numbers + `}}`,
		`{"rope_theta": 1000000.0, "rope_scaling": {"rope_type": null, "type": "yarn", ` + numbers + `}}`,
		`{"rope_theta": 1000000.0, "rope_parameters": {"rope_type": "yarn", ` + numbers + `}}`,
		`{"rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, ` + numbers + `}}`,
		// rope_scaling, which users add, goes before rope_parameters; theta is where it is
		`{"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}, "rope_scaling": {"type": "yarn", ` + numbers + `}}`,
		`{"rope_parameters": {"full_attention": {"rope_theta": 1000000.0}}, "rope_scaling": {"type": "yarn", ` + numbers + `}}`,
		`{"rope_theta": 1000000.0, "rope_parameters": {"rope_theta": 10000.0}, "rope_scaling": {"type": "yarn", ` + numbers + `}}`,
		`{"rope_theta": 10000.0, "rope_parameters": {"rope_theta": 10000.0}, "rope_scaling": {"type": "yarn", "rope_theta": 1000000.0, ` + numbers + `}}`,
		`{"rope_theta": 10000.0, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, ` + numbers + `}, "rope_scaling": null}`,
		`{"rope_theta": 10000.0, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1000000.0, ` + numbers + `}, "rope_scaling": {}}`,
		`{"rope_parameters": {"sliding_attention": {"rope_theta": 10000.0}, "full_attention": {"rope_type": "yarn", "rope_theta": 1000000.0, ` + numbers + `}}}`,
		`{"rope_theta": 1000000.0, "rope_scaling": {"type": "yarn", "beta_fast": 32, "beta_slow": 1, "attention_factor": null, "truncate": true, ` + numbers + `}}`,
	} {
		if got := mustRead(t, config, 16); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
	}
	plain := mustRead(t, `{"rope_theta": 1000000.0}`, 16)
	for _, config := range []string{
		`{"rope_theta": 1000000.0, "rope_scaling": null}`,
		`{"rope_theta": 1000000.0, "rope_scaling": {"type": "default"}}`,
		`{"rope_theta": 1000000.0, "rope_scaling": {"type": "default", "rope_type": "default"}}`,
		`{"rope_parameters": {"rope_theta": 1000000.0}}`,
	} {
		if got := mustRead(t, config, 16); fmt.Sprint(got) != fmt.Sprint(plain) {
			t.Errorf("%s: %v, want %v", config, got, plain)
		}
	}
}

// YaRN of the two models as published: plain frequencies up to the correction
// range, divided by the factor from its end on, a line between.
func TestYaRNPublished(t *testing.T) {
	const lite = `"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1`
	for _, c := range []struct {
		config        string
		dim           int
		theta, factor float64
		low, high     int
		scale         float64
		softmax       float64
		positions     int
	}{
		{`{"rope_theta": 1e6, "rope_scaling": {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}}`, 128, 1e6, 4, 23, 40, 1.138629, 1, 131072},
		{`{"rope_theta": 10000, "rope_scaling": {` + lite + `, "mscale": 0.707, "mscale_all_dim": 0.707}}`, 64, 1e4, 40, 10, 23, 1, 1.58962617, 163840},
		{`{"rope_theta": 10000, "rope_scaling": {` + lite + `}}`, 64, 1e4, 40, 10, 23, 0.1*math.Log(40) + 1, 1, 163840},
		{`{"rope_theta": 10000, "rope_scaling": {` + lite + `, "attention_factor": 0.5}}`, 64, 1e4, 40, 10, 23, 0.5, 1, 163840},
	} {
		e := mustRead(t, c.config, c.dim)
		for i, got := range e.InvFreq {
			plain := math.Pow(c.theta, -2*float64(i)/float64(c.dim))
			ramp := min(max(float64(i-c.low)/float64(c.high-c.low), 0), 1)
			if want := plain * (1 - ramp + ramp/c.factor); math.Abs(float64(got)-want) > 1e-7*want {
				t.Errorf("%s: frequency %d is %v, want %v", c.config, i, got, want)
			}
		}
		if math.Abs(float64(e.Scale)-c.scale) > 5e-7 || math.Abs(e.SoftmaxScale-c.softmax) > 5e-9 || e.MaxPositions != c.positions {
			t.Errorf("%s: scale %v, softmax scale %v, %d positions", c.config, e.Scale, e.SoftmaxScale, e.MaxPositions)
		}
	}
}

func TestRefuse(t *testing.T) {
	yarn := func(field, value string) string {
		fields := map[string]string{"type": `"yarn"`, "factor": "4", "original_max_position_embeddings": "4096", field: value}
		var list []string
		for k, v := range fields {
			list = append(list, fmt.Sprintf("%q: %s", k, v))
		}
		return `{"rope_theta": 1e4, "rope_scaling": {` + strings.Join(list, ", ") + "}}"
	}
	for config, want := range map[string]string{
		`{}`:                      "rope_theta is missing; it changes the result and has no default",
		`{"rope_theta": 0}`:       "rope_theta is 0, want a number above 0",
		`{"rope_theta": 1}`:       "rope_theta is 1, want a number above 1 and below 1e+15",
		`{"rope_parameters": {}}`: "rope_theta is missing; it changes the result and has no default",
		`{"rope_theta": 1e4, "rope_scaling": {"type": "dynamic"}}`:                                                    `rope_scaling: rope_type is "dynamic"; supported are "default" and "yarn"`,
		`{"rope_theta": 1e4, "rope_scaling": "yarn"}`:                                                                 `rope_scaling is "yarn", want an object`,
		`{"rope_theta": 1e4, "partial_rotary_factor": 0.5}`:                                                           "partial_rotary_factor is 0.5, want 1: rotation of a part of each head is not supported",
		`{"rope_theta": 1e4, "partial_rotary_factor": 0}`:                                                             "partial_rotary_factor is 0, want a number above 0",
		`{"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}`:                                     "rope_parameters: partial_rotary_factor is 0.25, want 1: rotation of a part of each head is not supported",
		`{"rope_parameters": {"full_attention": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}}}`:                 "rope_parameters: full_attention: partial_rotary_factor is 0.25, want 1: rotation of a part of each head is not supported",
		`{"rope_theta": 1e4, "rope_parameters": {"partial_rotary_factor": 0.25}, "rope_scaling": {"type":"default"}}`: "rope_parameters: partial_rotary_factor is 0.25, want 1: rotation of a part of each head is not supported",
		yarn("partial_rotary_factor", "0.5"):                                                                          "rope_scaling: partial_rotary_factor is 0.5, want 1: rotation of a part of each head is not supported",
		yarn("rope_type", `"default"`):                                                                                `rope_scaling: rope_type is "default" and type "yarn"; leave one of them`,
		yarn("rope_type", `"linear"`):                                                                                 `rope_scaling: rope_type is "linear" and type "yarn"; leave one of them`,
		`{"rope_theta": 1e4, "rope_scaling": {"type": "default", "rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 4096}}`: `rope_scaling: rope_type is "yarn" and type "default"; leave one of them`,
		yarn("attn_factor", "2"):                         "rope_scaling: attn_factor is 2, want 1: runtimes disagree on whether it counts; attention_factor does",
		yarn("extrapolation_factor", "0.5"):              "rope_scaling: extrapolation_factor is 0.5, want 1: runtimes disagree on whether it counts",
		yarn("type", "3"):                                "rope_scaling: type is 3, want a text",
		yarn("type", "null"):                             "rope_scaling: rope_type is missing beside factor; it changes the result and has no default",
		yarn("factor", "null"):                           "rope_scaling: factor is missing; it changes the result and has no default",
		yarn("factor", "0.5"):                            "rope_scaling: factor is 0.5, want a number of at least 1",
		yarn("factor", "1e9"):                            "rope_scaling: factor is 1e+09: 4096 positions times that are more than 2147483647",
		yarn("original_max_position_embeddings", "null"): "rope_scaling: original_max_position_embeddings is missing; it changes the result and has no default",
		yarn("beta_fast", "5e-324"):                      "rope_scaling: beta_fast is 5e-324 and beta_slow 1, out of every dimension's reach",
		yarn("attention_factor", "1e300"):                "rope_scaling: attention_factor is 1e+300, want a number from 1.18e-38 to below 1000",
		yarn("attention_factor", "1e-320"):               "rope_scaling: attention_factor is 1e-320, want a number from 1.18e-38 to below 1000",
		yarn("mscale_all_dim", "1e30"):                   "rope_scaling: mscale with factor and attention_factor gives 1.1386294 and 1.9218120556728058e+58 as scales, want both below 1000",
		yarn("mscale_all_dim", "500"):                    "rope_scaling: mscale with factor and attention_factor gives 1.1386294 and 4944.159575294004 as scales, want both below 1000",
		`{"rope_theta": 1e16}`:                           "rope_theta is 1e+16, want a number above 1 and below 1e+15",
		`{"rope_theta": -1e4}`:                           "rope_theta is -10000, want a number above 0",
		`{"rope_theta": 1e4, "rope_parameters": {"sliding_attention": {"rope_theta": 1e4}}}`:  `rope_parameters: full_attention is missing beside "sliding_attention"; only full attention is supported`,
		`{"rope_parameters": {"rope_theta": 1e4}, "rope_scaling": {"type": "linear"}}`:        `rope_scaling: rope_type is "linear"; supported are "default" and "yarn"`,
		`{"rope_parameters": {"full_attention": {"rope_theta": 1e4, "rope_type": "linear"}}}`: `rope_parameters: full_attention: rope_type is "linear"; supported are "default" and "yarn"`,
		yarn("attention_factor", "Infinity"):                                                  "rope_scaling: attention_factor is NaN or infinite, want a number",
	} {
		if _, err := read(t, config, 16); err == nil || err.Error() != "config.json: "+want {
			t.Errorf("%s:\n %v\nwant\n config.json: %s", config, err, want)
		}
	}
}

// Fields that say what is so anyway are no reason to refuse a file.
func TestAccept(t *testing.T) {
	for _, config := range []string{
		`{"rope_theta": 1e4, "partial_rotary_factor": 1.0}`,
		`{"rope_theta": 1e4, "partial_rotary_factor": null}`,
		`{"rope_parameters": {"rope_theta": 1e4, "rope_type": "default", "partial_rotary_factor": 1}}`,
		`{"rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4096, "attn_factor": 1, "extrapolation_factor": 1.0}}`,
	} {
		if _, err := read(t, config, 16); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// Whatever the numbers: an error, or frequencies that fall from 1 and are
// never above the plain ones nor below their share of the factor.
func TestYaRNBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		positive := rapid.Float64Range(1e-300, 1e300)
		theta, factor := rapid.Float64Range(1.0001, 1e12).Draw(t, "theta"), rapid.Float64Range(1, 1000).Draw(t, "factor")
		dim := 2 * rapid.IntRange(1, 64).Draw(t, "half")
		config := fmt.Sprintf(`{"rope_theta": %g, "rope_scaling": {"type": "yarn", "factor": %g, "original_max_position_embeddings": %d, "beta_fast": %g, "beta_slow": %g, "mscale": %g, "mscale_all_dim": %g, "truncate": %t}}`,
			theta, factor, rapid.IntRange(1, 1<<20).Draw(t, "original"), positive.Draw(t, "fast"), positive.Draw(t, "slow"),
			rapid.Float64Range(0, 10).Draw(t, "mscale"), rapid.Float64Range(0, 10).Draw(t, "all"), rapid.Bool().Draw(t, "truncate"))
		f, err := model.ParseFields("config.json", []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		e := Read(f, dim)
		if f.Err() != nil {
			return
		}
		for i, got := range e.InvFreq {
			plain := math.Pow(theta, -2*float64(i)/float64(dim))
			if v := float64(got); !(v <= plain*(1+1e-6) && v >= plain/factor*(1-1e-6)) {
				t.Errorf("%s: frequency %d is %v, plain %v", config, i, v, plain)
			}
		}
		if s := float64(e.Scale) * e.SoftmaxScale; math.IsNaN(s) || math.IsInf(s, 0) {
			t.Errorf("%s: scales %v and %v", config, e.Scale, e.SoftmaxScale)
		}
	})
}
