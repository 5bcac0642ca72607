package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blitzen/internal/golden"
)

// tokenizersUnderTest: golden file -> checkpoint folder.
var tokenizersUnderTest = map[string]string{
	"needle-qwen2.json":  "../models/needle-qwen2",
	"needle-dsv2.json":   "../models/needle-dsv2",
	"deepseek-mini.json": "../testdata/tokenizers/deepseek-mini",
}

func open(t testing.TB, dir string) *Tokenizer {
	t.Helper()
	tok, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tok.Close(); err != nil {
			t.Error(err)
		}
	})
	return tok
}

// folder makes a checkpoint folder of files given by name.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

type goldenStrings struct {
	Strings []struct {
		Text        string  `json:"text"`
		IDs         []int32 `json:"ids"`
		WithSpecial []int32 `json:"ids_with_special"`
		AsText      []int32 `json:"ids_specials_as_text"`
		Decoded     string  `json:"decoded"`
		DecodedSkip *string `json:"decoded_skip_special"`
	} `json:"strings"`
	Incremental []struct {
		Kind   string   `json:"kind"`
		IDs    []int32  `json:"ids"`
		Chunks []string `json:"chunks"`
		Flush  string   `json:"flush"`
		Full   string   `json:"full"`
	} `json:"incremental"`
}

func TestGoldenStrings(t *testing.T) {
	for file, dir := range tokenizersUnderTest {
		t.Run(file, func(t *testing.T) {
			tok := open(t, dir)
			var want goldenStrings
			golden.JSON(t, "../testdata/tokenizers/"+file, &want)
			if len(want.Strings) < 200 {
				t.Fatalf("only %d strings", len(want.Strings))
			}
			for _, w := range want.Strings {
				if w.WithSpecial == nil {
					w.WithSpecial = w.IDs
				}
				if w.AsText == nil {
					w.AsText = w.IDs
				}
				for _, c := range []struct {
					o    EncodeOptions
					want []int32
				}{
					{EncodeOptions{}, w.IDs},
					{EncodeOptions{AddSpecial: true}, w.WithSpecial},
					{EncodeOptions{ControlAsText: true}, w.AsText},
				} {
					got, err := tok.Encode(w.Text, c.o)
					if err != nil || !slices.Equal(got, c.want) {
						t.Errorf("Encode(%+q, %+v) = %v, %v, want %v", w.Text, c.o, got, err, c.want)
					}
				}
				if got, err := tok.Decode(w.IDs, false); err != nil || got != w.Decoded {
					t.Errorf("Decode(%v) = %+q, %v, want %+q", w.IDs, got, err, w.Decoded)
				}
				if w.DecodedSkip != nil {
					if got, err := tok.Decode(w.IDs, true); err != nil || got != *w.DecodedSkip {
						t.Errorf("Decode(%v, skip) = %+q, %v, want %+q", w.IDs, got, err, *w.DecodedSkip)
					}
				}
			}
		})
	}
}

func TestGoldenStream(t *testing.T) {
	for file, dir := range tokenizersUnderTest {
		t.Run(file, func(t *testing.T) {
			tok := open(t, dir)
			var want goldenStrings
			golden.JSON(t, "../testdata/tokenizers/"+file, &want)
			for _, w := range want.Incremental {
				stream := tok.NewStream(false)
				var chunks []string
				for _, id := range w.IDs {
					chunk, err := stream.Next(id)
					if err != nil {
						t.Fatal(err)
					}
					chunks = append(chunks, chunk)
				}
				flush := stream.Flush()
				if !slices.Equal(chunks, w.Chunks) || flush != w.Flush {
					t.Errorf("%s %v: chunks %+q flush %+q, want %+q and %+q", w.Kind, w.IDs, chunks, flush, w.Chunks, w.Flush)
				}
				if full := strings.Join(chunks, "") + flush; full != w.Full {
					t.Errorf("%v: %+q, want %+q", w.IDs, full, w.Full)
				}
			}
		})
	}
}

// Merges come as pairs or as strings.
func TestStringMerges(t *testing.T) {
	tok := open(t, folder(t, map[string]string{
		"tokenizer.json": read(t, "../testdata/tokenizers/deepseek-mini/tokenizer.string_merges.json"),
	}))
	var want goldenStrings
	golden.JSON(t, "../testdata/tokenizers/deepseek-mini.json", &want)
	for _, w := range want.Strings {
		if got, err := tok.Encode(w.Text, EncodeOptions{}); err != nil || !slices.Equal(got, w.IDs) {
			t.Errorf("Encode(%+q) = %v, %v, want %v", w.Text, got, err, w.IDs)
		}
	}
}

func TestGoldenTemplates(t *testing.T) {
	var want struct {
		Cases []struct {
			Template            string
			Messages            []map[string]json.RawMessage
			Tools               []json.RawMessage
			AddGenerationPrompt bool `json:"add_generation_prompt"`
			Rendered            string
			IDs                 []int32
		}
	}
	golden.JSON(t, "../testdata/tokenizers/templates/rendered.json", &want)
	qwen := open(t, "../models/needle-qwen2")
	// BOS and EOS of the DeepSeek rows come from a configuration, which the small tokenizer lacks.
	deepseek := open(t, folder(t, map[string]string{
		"tokenizer.json":        read(t, "../testdata/tokenizers/deepseek-mini/tokenizer.json"),
		"tokenizer_config.json": read(t, "../models/needle-dsv2/tokenizer_config.json"),
	}))
	if len(want.Cases) < 100 {
		t.Fatalf("only %d cases", len(want.Cases))
	}
	for _, w := range want.Cases {
		tok, o := qwen, ChatOptions{AddGenerationPrompt: w.AddGenerationPrompt, Tools: w.Tools}
		if strings.HasSuffix(w.Template, ".jinja") {
			o.Template = read(t, "../testdata/tokenizers/templates/"+w.Template)
		}
		if w.Template == "deepseek.jinja" {
			tok = deepseek
		}
		var messages []Message
		for _, fields := range w.Messages {
			messages = append(messages, message(t, fields))
		}
		got, err := tok.Render(messages, o)
		if err != nil || got != w.Rendered {
			t.Errorf("%s: rendered %q, %v, want %q", w.Template, got, err, w.Rendered)
			continue
		}
		if ids, err := tok.Encode(got, EncodeOptions{}); err != nil || !slices.Equal(ids, w.IDs) {
			t.Errorf("%s: %q: ids %v, %v, want %v", w.Template, got, ids, err, w.IDs)
		}
		// The reference reads special tokens in contents as such; EncodeChat does not (see TestControlInContents).
		hostile := slices.ContainsFunc(messages, func(m Message) bool {
			return slices.ContainsFunc(tok.vocab.control, func(c addedToken) bool { return strings.Contains(m.Content, c.Content) })
		})
		ids, err := tok.EncodeChat(messages, o)
		var unused *UnusedError // the reference is silent about it
		if errors.As(err, &unused) && !strings.Contains(w.Rendered, messages[unused.Index].Content) {
			continue
		}
		if err != nil || slices.Equal(ids, w.IDs) == hostile {
			t.Errorf("%s: EncodeChat(%q) = %v, %v, reference %v", w.Template, messages, ids, err, w.IDs)
		}
	}
}

// message makes a Message of JSON fields.
func message(t testing.TB, fields map[string]json.RawMessage) (m Message) {
	t.Helper()
	m.Extra = map[string]json.RawMessage{}
	for name, raw := range fields {
		switch name {
		case "role":
			unmarshal(t, raw, &m.Role)
		case "content":
			unmarshal(t, raw, &m.Content)
		default:
			m.Extra[name] = raw
		}
	}
	return m
}

func unmarshal(t testing.TB, raw json.RawMessage, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// The prompts that the model goldens were made from.
func TestNeedlePrompts(t *testing.T) {
	tok := open(t, "../models/needle-qwen2")
	var want struct {
		Prompts []struct {
			Messages []Message
			Rendered string
		}
	}
	golden.JSON(t, "../testdata/needle-qwen2/prompts.json", &want)
	tensors := golden.Open(t, "../testdata/needle-qwen2/golden.safetensors")
	if len(want.Prompts) != 6 {
		t.Fatalf("%d prompts", len(want.Prompts))
	}
	for i, w := range want.Prompts {
		o := ChatOptions{AddGenerationPrompt: true}
		if got, err := tok.Render(w.Messages, o); err != nil || got != w.Rendered {
			t.Errorf("prompt %d: rendered %q, %v, want %q", i, got, err, w.Rendered)
		}
		ids, err := tok.EncodeChat(w.Messages, o)
		if want := tensors.Int32s(fmt.Sprintf("%d.input_ids", i)); err != nil || !slices.Equal(ids, want) {
			t.Errorf("prompt %d: ids %v, %v, want %v", i, ids, err, want)
		}
	}
}
