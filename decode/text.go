package decode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Why a generation ended.
const (
	FinishStop       = "stop"        // an end token
	FinishStopString = "stop_string" // a text the caller asked to stop at
	FinishLength     = "length"      // as many tokens as asked for
	FinishContext    = "context"     // no room for more
)

// Decoder turns ids into text as they come; tokenizer.Stream is one. Text that
// may still change is held back until Flush.
type Decoder interface {
	Next(id int32) (string, error)
	Flush() string
}

// Filter holds text back that may be the start of a stop string;
// tokenizer.StopFilter is one.
type Filter interface {
	Write(text string) (emit string, stopped bool)
	Flush() string
}

// Limits say when a generation ends and what becomes of its text.
type Limits struct {
	MaxTokens int
	EOS       []int32 // end tokens; none to go on
	Decoder   Decoder // nil: no text, ids alone
	Stop      Filter  // nil: no stop strings
}

// Result is one generation. IDs include the end token; Text does not.
type Result struct {
	Text   string
	Tokens []Token
	Finish string
	Decode time.Duration // waiting for the steps, one a token
}

// IDs are the tokens' ids.
func (r Result) IDs() []int32 {
	ids := make([]int32, len(r.Tokens))
	for i, t := range r.Tokens {
		ids[i] = t.ID
	}
	return ids
}

// Generate decodes tokens until a limit. emit, if not nil, gets the text as it
// becomes certain; its error ends the generation. When ctx ends, what there is
// so far is returned with ctx's error.
func (s *Session) Generate(ctx context.Context, limits Limits, emit func(text string) error) (Result, error) {
	if limits.MaxTokens < 1 {
		return Result{}, fmt.Errorf("at most %d tokens: want at least 1", limits.MaxTokens)
	}
	g := generation{limits: limits, emit: emit}
	for g.result.Finish == "" {
		start := time.Now()
		t, err := s.Next(ctx)
		g.result.Decode += time.Since(start)
		if errors.Is(err, ErrFull) {
			g.result.Finish = FinishContext
			break
		}
		if err != nil {
			return g.end(err)
		}
		if err := g.add(t); err != nil {
			return g.end(err)
		}
	}
	return g.end(nil)
}

// generation is the state of one Generate.
type generation struct {
	limits Limits
	emit   func(string) error
	text   strings.Builder
	result Result
}

// add takes a token and decides whether it is the last.
func (g *generation) add(t Token) error {
	g.result.Tokens = append(g.result.Tokens, t)
	switch {
	case slices.Contains(g.limits.EOS, t.ID):
		g.result.Finish = FinishStop
		return nil
	case len(g.result.Tokens) >= g.limits.MaxTokens:
		g.result.Finish = FinishLength
	}
	if g.limits.Decoder == nil {
		return nil
	}
	text, err := g.limits.Decoder.Next(t.ID)
	if err != nil {
		return err
	}
	return g.push(text)
}

func (g *generation) push(text string) error {
	if g.limits.Stop != nil {
		var stopped bool
		if text, stopped = g.limits.Stop.Write(text); stopped {
			g.result.Finish = FinishStopString
		}
	}
	return g.write(text)
}

func (g *generation) write(text string) error {
	g.text.WriteString(text)
	if g.emit == nil || text == "" {
		return nil
	}
	return g.emit(text)
}

// end flushes what was held back, also after an error: nothing decoded is lost.
func (g *generation) end(err error) (Result, error) {
	if flushErr := g.flush(); err == nil {
		err = flushErr
	}
	g.result.Text = g.text.String()
	return g.result, err
}

func (g *generation) flush() error {
	if g.limits.Decoder == nil || g.result.Finish == FinishStopString {
		return nil
	}
	if err := g.push(g.limits.Decoder.Flush()); err != nil {
		return err
	}
	if g.limits.Stop == nil || g.result.Finish == FinishStopString {
		return nil
	}
	return g.write(g.limits.Stop.Flush())
}
