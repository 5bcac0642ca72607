package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/spf13/cobra"
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
	t.Setenv("GENERATE_N_PROMPT", "4,8,04")
	refused(t, generate(t, "", "bench", tiny+"qwen2_tied_gqa"), 2, "", `GENERATE_N_PROMPT="4,8,04": 4 is named twice: leave one out`)
	t.Setenv("GENERATE_N_PROMPT", "4")
	answer(t, "", "bench", tiny+"qwen2_tied_gqa", "-n", "1, 2", "-d", "", "-r", "1", "--attention", "dense")
}

// A list that is given again goes on; the default is not a part of it.
func TestListAgain(t *testing.T) {
	for _, c := range []struct {
		given []string
		want  string
	}{
		{nil, `["before"]`}, {[]string{"a"}, `["a"]`}, {[]string{"a", "b"}, `["a" "b"]`}, {[]string{"a,b", "c", "d, e"}, `["a" "b" "c" "d" "e"]`},
		{[]string{"", "a"}, `["a"]`}, {[]string{"a", " "}, `["a"]`}, {[]string{"", ""}, "[]"},
	} {
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		var list string
		listVar(f, &list, "list", "l", "before", "")
		var args []string
		for _, s := range c.given {
			args = append(args, "-l", s)
		}
		err := f.Parse(args)
		if got := fmt.Sprintf("%q", choices(list)); err != nil || got != c.want {
			t.Errorf("%q: %s, %v; want %s", c.given, got, err, c.want)
		}
	}
}

// A value comes twice in a set of layers alone: others are measured side by side.
func TestListTwice(t *testing.T) {
	for _, cmd := range []*cobra.Command{newGenerateCommand(), newCompareCommand(), newEvaluateCommand(), newDiagnoseCommand(), newBenchCommand()} {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Value.(*listValue); !ok {
				return
			}
			err := cmd.ParseFlags([]string{"--" + f.Name, "5,05"})
			if (err == nil) != (f.Name == "dense-layers") {
				t.Errorf("%s --%s 5,05: %v", cmd.Name(), f.Name, err)
			}
		})
	}
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	list := "a,a" // the default
	listVar(f, &list, "list", "l", list, "")
	if err := f.Parse([]string{"-l", "a,b"}); err != nil || list != "a,b" {
		t.Errorf("%q, %v", list, err)
	}
	if err := f.Parse([]string{"-l", "c,a"}); err == nil || list != "a,b" {
		t.Errorf("%q, %v", list, err)
	}
}

// Every flag that is a list goes on when it is given again; the command line
// replaces a variable.
func TestListsOfCommandsAgain(t *testing.T) {
	m := tiny + "qwen2_tied_gqa"
	same := func(again, once []string) {
		t.Helper()
		a, b := asObject(t, "", append(again, "-n", "4", "--seed", "1")...), asObject(t, "", append(once, "-n", "4", "--seed", "1")...)
		if a.PromptTokens != b.PromptTokens || !slices.Equal(a.TokenIDs, b.TokenIDs) {
			t.Errorf("%v: %d prompt tokens, %v; %v: %d, %v", again, a.PromptTokens, a.TokenIDs, once, b.PromptTokens, b.TokenIDs)
		}
	}
	ids := t.TempDir() + "/ids"
	write(t, ids, `{"ids": [3, 4]}`)
	same([]string{m, "--prompt-ids", "1,2", "--prompt-ids", "@" + ids, "--prompt-ids", "[5]"}, []string{m, "--prompt-ids", "1,2,3,4,5"})
	refused(t, generate(t, "", m, "--prompt-ids", "1", "--prompt-ids", "2,x"), 2, "", `--prompt-ids: "x", at place 2, is not a token id: want 0 to 2147483647`)
	refused(t, generate(t, "", m, "--prompt-ids", "1", "--dense-layers", "0", "--dense-layers", "1-2"), 2, "", "--dense-layers 0-2 are all layers: use dense attention")
	refused(t, generate(t, "", "evaluate", m, "--budget", "32", "--budget", "x"), 2, "", `--budget "x": want whole numbers, separated by commas`)
	refused(t, generate(t, "", "evaluate", m, "--length", "32", "--length", "32"), 2, "", `--length "32": 32 is named twice: leave one out`)
	once := answer(t, "", "tokenize", needle, "--ids", "40,41").out
	if again := answer(t, "", "tokenize", needle, "--ids", "40", "--ids", "41").out; again != once {
		t.Errorf("tokenize --ids twice prints %q, want %q", again, once)
	}
	t.Setenv("GENERATE_PROMPT_IDS", "7,8")
	same([]string{m, "--prompt-ids", "1", "--prompt-ids", "2"}, []string{m, "--prompt-ids", "1,2"})
	t.Setenv("GENERATE_N_PROMPT", "4")
	refused(t, generate(t, "", "bench", m, "-p", "x", "-p", "16"), 2, "", `-p "x,16": want whole numbers of 0 to 1099511627776, separated by commas`)
}
