package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A number is decimal, whatever it begins with.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ flag, given, want string }{
		{"int", "1000", "1000"}, {"int", "01000", "1000"}, {"int", "-010", "-10"}, {"int", "+010", "10"}, {"int", "08", "8"},
		{"int", "0", "0"}, {"int", "000", "0"}, {"int", "-0", "0"},
		{"int", "0x20", ""}, {"int", "0X20", ""}, {"int", "0b11", ""}, {"int", "0o17", ""}, {"int", "1_000", ""}, {"int", "0_7", ""}, {"int", "-0x20", ""},
		{"uint", "01000", "1000"}, {"uint", "18446744073709551615", "18446744073709551615"}, {"uint", "0x20", ""}, {"uint", "1_000", ""},
		{"float", "010.5", "10.5"}, {"float", "00.5", "0.5"}, {"float", "1e-3", "0.001"}, {"float", "0x1p-2", ""}, {"float", "0X1P4", ""}, {"float", "0x_1p4", ""},
	} {
		var i int
		var u uint64
		var x float64
		cmd := newCommand("test", "", nil)
		addFlags(cmd, "Numbers", func(f *pflag.FlagSet) {
			f.IntVar(&i, "int", 5, "")
			f.Uint64Var(&u, "uint", 5, "")
			f.Float64Var(&x, "float", 5, "")
		})
		err := cmd.ParseFlags([]string{"--" + c.flag, c.given})
		if c.want == "" {
			if err == nil || !strings.Contains(flagError(cmd, err).Error(), "--"+c.flag+` "`+c.given+`": `+errNotDecimal.Error()) {
				t.Errorf("--%s %s: %v", c.flag, c.given, err)
			}
			continue
		}
		if got := cmd.Flags().Lookup(c.flag).Value.String(); err != nil || got != c.want {
			t.Errorf("--%s %s: %s, %v; want %s", c.flag, c.given, got, err, c.want)
		}
	}
}

// Numbers are decimal in every command, and in variables.
func TestNumbersOfCommands(t *testing.T) {
	m := tiny + "qwen2_tied_gqa"
	for _, cmd := range []*cobra.Command{newGenerateCommand(), newTokenizeCommand(), newCompareCommand(), newEvaluateCommand(), newReportCommand(), newDiagnoseCommand(), newBenchCommand(), newInspectCommand()} {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			hex := map[string]string{"int": "0x20", "uint64": "0x20", "float64": "0x1p4"}[f.Value.Type()]
			if hex == "" {
				return
			}
			if err := f.Value.Set(hex); !errors.Is(err, errNotDecimal) {
				t.Errorf("%s --%s %s: %v", cmd.Name(), f.Name, hex, err)
			}
		})
	}
	refused(t, generate(t, "", m, "--prompt-ids", "1", "--budget", "0x20"), 2, "", `--budget "0x20": `+errNotDecimal.Error())
	refused(t, generate(t, "", "bench", m, "-r", "1_0"), 2, "", `--repetitions "1_0": `+errNotDecimal.Error())
	refused(t, generate(t, "", m, "--prompt-ids", "1", "--temperature", "0x1p-1"), 2, "", `--temperature "0x1p-1": `+errNotDecimal.Error())
	if got := asObject(t, "", m, "--prompt-ids", "1,2", "-n", "010", "--ignore-eos"); len(got.TokenIDs) != 10 {
		t.Errorf("-n 010: %d tokens", len(got.TokenIDs))
	}
	t.Setenv("GENERATE_MAX_TOKENS", "010")
	if got := asObject(t, "", m, "--prompt-ids", "1,2", "--ignore-eos"); len(got.TokenIDs) != 10 {
		t.Errorf("GENERATE_MAX_TOKENS=010: %d tokens", len(got.TokenIDs))
	}
	t.Setenv("GENERATE_MAX_TOKENS", "1_000")
	refused(t, generate(t, "", m, "--prompt-ids", "1"), 2, "", `GENERATE_MAX_TOKENS="1_000": `+errNotDecimal.Error())
}
