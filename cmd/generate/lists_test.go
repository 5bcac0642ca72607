package main

import (
	"fmt"
	"testing"

	"github.com/spf13/pflag"
)

// A list has the elements between its commas, none when it is blank, and is
// refused when one of them is.
func TestLists(t *testing.T) {
	for given, want := range map[string]string{
		"": "[]", " ": "[]", "a": `["a"]`, " a , b c ": `["a" "b c"]`,
		",": "", " , ": "", "a,": "", ",a": "", "a,,b": "", "a, ,b": "",
	} {
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		var list string
		listVar(f, &list, "list", "l", "before", "")
		err := f.Parse([]string{"-l", given})
		if want == "" {
			if err == nil || list != "before" {
				t.Errorf("%q: %v, and the list is %q", given, err, list)
			}
			continue
		}
		if got := fmt.Sprintf("%q", choices(list)); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", given, got, err, want)
		}
	}
	t.Setenv("GENERATE_N_PROMPT", "512,")
	refused(t, generate(t, "", "bench", tiny+"qwen2_tied_gqa"), 2, "", `GENERATE_N_PROMPT="512,": `+errEmptyElement.Error())
	t.Setenv("GENERATE_N_PROMPT", "4")
	answer(t, "", "bench", tiny+"qwen2_tied_gqa", "-n", "1, 2", "-d", "", "-r", "1", "--attention", "dense")
}
