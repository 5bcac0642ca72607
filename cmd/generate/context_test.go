package main

import (
	"math"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"blitzen/model"
)

// The advice on a prompt that is too long does what it says, in either spelling
// of config.json.
func TestStretchAdvice(t *testing.T) {
	for _, from := range []string{tiny + "qwen2_untied_mha/config.json", tiny + "qwen2_untied_mha/config.v5.json"} {
		dir := t.TempDir()
		config := filepath.Join(dir, "config.json")
		write(t, config, read(t, from))
		args := []string{dir, "--load-format", "dummy", "--prompt-ids", "1,2,3", "-n", "1", "-c", "131072"}
		o := generate(t, "", args...)
		advice := regexp.MustCompile(`set ("rope_scaling": \{.*\}) to config.json`).FindStringSubmatch(o.errors)
		if o.code != 2 || advice == nil {
			t.Fatalf("%s: exit code %d: %s", from, o.code, o.errors)
		}
		write(t, config, strings.Replace(read(t, config), "{", "{"+advice[1]+",", 1))
		if out := answer(t, "", "inspect", dir, "--load-format", "dummy").out; !strings.Contains(out, "limit          131072 tokens\n") {
			t.Errorf("%s: after the advice %s:\n%s", from, advice[1], out)
		}
		answer(t, "", args...)
	}
}

// The longest answer that a row of a file asks for may be any number.
func TestContextOfHugeAnswer(t *testing.T) {
	if n, err := contextSize(10, math.MaxInt, 0, false, model.Config{MaxPositions: 100}); n != 99 || err != nil {
		t.Errorf("%d tokens, error %v", n, err)
	}
}
