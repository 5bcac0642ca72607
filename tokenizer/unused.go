package tokenizer

import (
	"fmt"
	"strings"
	"unicode"

	"blitzen/internal/excerpt"
)

// UnusedError says that a chat template leaves out a message: the model would not read it.
type UnusedError struct {
	Path  string // the template's file
	Index int    // the message's place
	Role  string // the message's role
}

func (e *UnusedError) Error() string {
	return fmt.Sprintf("chat template of %s: it leaves out the content of message %d (role %s), so that the model would not read it",
		e.Path, e.Index, excerpt.Quoted(e.Role))
}

// checkUsed returns an UnusedError if text, which is what source renders, does not depend on what a message says. It
// tells so by rendering the message in other letters, not by looking for it: templates trim and change what they print. Of
// an assistant's messages templates leave parts out on purpose, and a message of white space has nothing to lose.
func (t *Tokenizer) checkUsed(source chatTemplate, text string, messages []Message, o ChatOptions) error {
	for i, m := range messages {
		other := inOtherLetters(m.Content)
		if m.Role == "assistant" || other == m.Content {
			continue
		}
		changed := append([]Message(nil), messages...)
		changed[i].Content = other
		// A template that fails has looked at the message.
		if got, err := t.fill(source, changed, o, unedited); err == nil && got == text {
			return &UnusedError{source.path, i, m.Role}
		}
	}
	return nil
}

// inOtherLetters is a text of the same length with the same white space, in which every other character differs.
func inOtherLetters(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return r
		case unicode.ToLower(r) == 'q':
			return 'z'
		}
		return 'q'
	}, text)
}
