package decode_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/modeltest"
	"blitzen/model"
)

// script is a Decoder that gives one part a token, whatever the token is.
type script struct {
	parts []string
	last  string // what Flush has
	err   error  // instead of a part that is missing
}

func (s *script) Next(int32) (string, error) {
	if len(s.parts) == 0 {
		return "", s.err
	}
	part := s.parts[0]
	s.parts = s.parts[1:]
	return part, nil
}

func (s *script) Flush() string { return s.last }

// until is a Filter that stops at one text and holds back one that may begin it.
type until struct{ stop, held string }

func (u *until) Write(text string) (string, bool) {
	u.held += text
	if before, _, found := strings.Cut(u.held, u.stop); found {
		u.held = ""
		return before, true
	}
	keep := len(u.stop) - 1
	for !strings.HasSuffix(u.held, u.stop[:keep]) {
		keep--
	}
	text, u.held = u.held[:len(u.held)-keep], u.held[len(u.held)-keep:]
	return text, false
}

func (u *until) Flush() string {
	text := u.held
	u.held = ""
	return text
}

// generator is a session that decodes 5 tokens before the context is full.
func generator(t *testing.T, dev device.Device, m model.Model) *decode.Session {
	t.Helper()
	s := open(t, dev, m, 10, 14, decode.Options{})
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	return s
}

func TestGenerate(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	probe := generator(t, dev, m)
	ids := next(t, probe, 5)
	parts := []string{"The ", "", "日", "本", "."}
	for _, c := range []struct {
		name    string
		limits  decode.Limits
		finish  string
		text    string
		streams string // parts as they were emitted
		tokens  int
	}{
		{"length", decode.Limits{MaxTokens: 3, Decoder: &script{parts: parts}}, decode.FinishLength, "The 日", "The |日", 3},
		{"length, half a character", decode.Limits{MaxTokens: 2, Decoder: &script{parts: parts, last: "\ufffd"}}, decode.FinishLength, "The \ufffd", "The |\ufffd", 2},
		{"end token", decode.Limits{MaxTokens: 9, EOS: []int32{511, ids[3]}, Decoder: &script{parts: parts}}, decode.FinishStop, "The 日", "The |日", 4},
		{"end token, last allowed", decode.Limits{MaxTokens: 4, EOS: []int32{ids[3]}, Decoder: &script{parts: parts}}, decode.FinishStop, "The 日", "The |日", 4},
		{"context", decode.Limits{MaxTokens: 9, Decoder: &script{parts: parts, last: "!"}}, decode.FinishContext, "The 日本.!", "The |日|本|.|!", 5},
		{"stop string over two tokens", decode.Limits{MaxTokens: 9, Decoder: &script{parts: parts, last: "!"}, Stop: &until{stop: "日本"}}, decode.FinishStopString, "The ", "The ", 4},
		{"stop string in the last token", decode.Limits{MaxTokens: 3, Decoder: &script{parts: parts, last: "!"}, Stop: &until{stop: "日"}}, decode.FinishStopString, "The ", "The ", 3},
		{"stop string in the flushed rest", decode.Limits{MaxTokens: 5, Decoder: &script{parts: parts, last: "!"}, Stop: &until{stop: ".!"}}, decode.FinishStopString, "The 日本", "The |日|本", 5},
		{"held back, then printed", decode.Limits{MaxTokens: 4, Decoder: &script{parts: parts, last: "."}, Stop: &until{stop: "日本.?"}}, decode.FinishLength, "The 日本.", "The |日本.", 4},
		{"held back at an end token", decode.Limits{MaxTokens: 9, EOS: ids[3:4], Decoder: &script{parts: parts}, Stop: &until{stop: "日本"}}, decode.FinishStop, "The 日", "The |日", 4},
		{"no text", decode.Limits{MaxTokens: 2}, decode.FinishLength, "", "", 2},
	} {
		var emitted []string
		r, err := generator(t, dev, m).Generate(context.Background(), c.limits, func(text string) error {
			emitted = append(emitted, text)
			return nil
		})
		if got := strings.Join(emitted, "|"); err != nil || r.Finish != c.finish || r.Text != c.text || got != c.streams || len(r.Tokens) != c.tokens {
			t.Errorf("%s: %q as %q, %d tokens, %s, %v; want %q as %q, %d tokens, %s", c.name, r.Text, got, len(r.Tokens), r.Finish, err, c.text, c.streams, c.tokens, c.finish)
		}
		for i, id := range r.IDs() {
			if id != ids[i] {
				t.Errorf("%s: token %d is %d, want %d", c.name, i, id, ids[i])
			}
		}
	}
}

// What was decoded before a fault is returned with it.
func TestGenerateFails(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	fault := errors.New("fault")
	parts := []string{"a", "b", "c", "d", "e"}
	ctx, cancel := context.WithCancel(context.Background())
	for _, c := range []struct {
		name   string
		ctx    context.Context
		limits decode.Limits
		emit   func(string) error
		err    error
		text   string
		tokens int
	}{
		{"emit", context.Background(), decode.Limits{MaxTokens: 9, Decoder: &script{parts: parts}}, func(text string) error {
			if text == "b" {
				return fault
			}
			return nil
		}, fault, "ab", 2},
		{"decoder", context.Background(), decode.Limits{MaxTokens: 9, Decoder: &script{parts: parts[:3], err: fault}}, func(string) error { return nil }, fault, "abc", 4},
		{"interrupted", ctx, decode.Limits{MaxTokens: 9, Decoder: &script{parts: parts, last: "!"}, Stop: &until{stop: "cd"}}, func(text string) error {
			if text == "b" {
				cancel()
			}
			return nil
		}, context.Canceled, "ab!", 2},
	} {
		r, err := generator(t, dev, m).Generate(c.ctx, c.limits, c.emit)
		if !errors.Is(err, c.err) || r.Text != c.text || len(r.Tokens) != c.tokens || r.Finish != "" {
			t.Errorf("%s: %q, %d tokens, finish %q, %v; want %q, %d tokens, %v", c.name, r.Text, len(r.Tokens), r.Finish, err, c.text, c.tokens, c.err)
		}
	}
}
