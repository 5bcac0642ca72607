package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	models = "../../models/"
	needle = models + "needle-qwen2"  // has a tokenizer and a chat template
	tiny   = "../../testdata/models/" // have neither
)

// outcome is what a run of the program leaves.
type outcome struct {
	code        int
	out, errors string
}

// generate runs the program with text on stdin.
func generate(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return generateWith(t.Context(), strings.NewReader(stdin), args...)
}

func generateWith(ctx context.Context, stdin io.Reader, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, stdin, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// answer is generate where all must go well.
func answer(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	o := generate(t, stdin, args...)
	if o.code != 0 {
		t.Fatalf("generate %q: exit code %d: %s", args, o.code, o.errors)
	}
	return o
}

// object is the JSON object of a generation as its readers see it.
type object struct {
	Text         string  `json:"text"`
	TokenIDs     []int32 `json:"token_ids"`
	PromptTokens int     `json:"prompt_tokens"`
	FinishReason string  `json:"finish_reason"`
	LogProbs     []struct {
		TokenID int32   `json:"token_id"`
		LogProb float64 `json:"logprob"`
		Top     []struct {
			TokenID int32   `json:"token_id"`
			LogProb float64 `json:"logprob"`
		} `json:"top"`
	} `json:"logprobs"`
	Attention struct {
		Name            string  `json:"name"`
		Budget          int     `json:"budget"`
		Seed            *uint64 `json:"seed"`
		AccessPercent   float64 `json:"access_percent"`
		SelectedPercent float64 `json:"selected_percent"`
	} `json:"attention"`
	Sampling struct {
		Temperature float64           `json:"temperature"`
		TopK        int               `json:"top_k"`
		TopP        float64           `json:"top_p"`
		Repetition  float64           `json:"repetition_penalty"`
		Seed        uint64            `json:"seed"`
		Source      map[string]string `json:"source"`
	} `json:"sampling"`
}

// object runs the program with --json, which must print one object and a
// newline.
func asObject(t *testing.T, stdin string, args ...string) object {
	t.Helper()
	o := answer(t, stdin, append(args, "--json")...)
	var obj object
	if err := json.Unmarshal([]byte(o.out), &obj); err != nil || strings.Count(o.out, "\n") != 1 || !strings.HasSuffix(o.out, "\n") {
		t.Fatalf("generate %q: %v in %q", args, err, o.out)
	}
	return obj
}

// refused checks the exit code and the one line on stderr; DIR stands for dir.
func refused(t *testing.T, o outcome, code int, dir, line string) {
	t.Helper()
	got := strings.TrimSuffix(o.errors, "\n")
	if dir != "" {
		got = strings.ReplaceAll(got, dir, "DIR")
	}
	if o.code != code || o.out != "" || got != "generate: "+line {
		t.Errorf("exit code %d, stdout %q, stderr\n %s\nwant exit code %d, stderr\n generate: %s", o.code, o.out, got, code, line)
	}
}

// write makes a file and the folders above it.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
