package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Row is one prompt with its reference answers.
type Row struct {
	Index        int      `json:"index"`
	ID           string   `json:"id"`             // names the row among all rows of all tasks
	Task         string   `json:"task,omitempty"` // rows of one task are averaged together
	Input        string   `json:"input"`          // the user's message, before any chat template
	Outputs      []string `json:"outputs"`        // reference answers
	AnswerPrefix string   `json:"answer_prefix"`  // the answer's given beginning, put after the prompt
	Scorer       string   `json:"scorer"`
	Length       int      `json:"length"`               // tokens, as the row's task counts them
	MaxTokens    int      `json:"max_tokens,omitempty"` // the longest answer; 0 leaves it open
	Stop         []string `json:"stop,omitempty"`       // the answer ends before the first of these
	Codes        int      `json:"codes,omitempty"`      // access codes in Input
	Line         int      `json:"-"`                    // of the file that it was read from, from 1
}

// ReadRows reads JSONL: one row a line, in UTF-8, of any length. Blank lines
// are passed over, a byte order mark, too, and unknown fields ignored. An error names the line; bad
// takes those of single rows, which are then left out, or is nil, and the first
// ends the reading.
func ReadRows(r io.Reader, bad func(error)) ([]Row, error) {
	var rows []Row
	lines := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, end := readLine(lines)
		if end != nil && !errors.Is(end, io.EOF) {
			return nil, fmt.Errorf("line %d: %w", number, end)
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // the byte order mark of some editors
		}
		if len(bytes.TrimSpace(line)) > 0 {
			row, err := parseRow(line)
			row.Line = number
			switch {
			case err == nil:
				rows = append(rows, row)
			case bad == nil:
				return nil, fmt.Errorf("line %d: %w", number, err)
			default:
				bad(fmt.Errorf("line %d: %w", number, err))
			}
		}
		if end != nil {
			return rows, nil
		}
	}
}

// mostLine is the longest line of a file of rows, in bytes.
const mostLine = 256 << 20

// readLine reads up to a newline, and no more than mostLine.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > mostLine:
			return nil, fmt.Errorf("it has more than %d bytes", mostLine)
		case !errors.Is(err, bufio.ErrBufferFull):
			return line, err
		}
	}
}

func parseRow(line []byte) (Row, error) {
	var row Row
	if !utf8.Valid(line) {
		// encoding/json would put U+FFFD into the prompt without a word.
		return row, errors.New("not UTF-8: convert the file")
	}
	if halfCharacter(line) {
		return row, errors.New(`an escape is half a character (\ud800 to \udfff without its other half): mend the text`)
	}
	var other *json.UnmarshalTypeError
	switch err := json.Unmarshal(line, &row); {
	case errors.As(err, &other) && other.Field == "":
		return row, fmt.Errorf("JSON of type %s: a row is an object", other.Value)
	case errors.As(err, &other):
		return row, fmt.Errorf("%q is of type %s: want %s", other.Field, other.Value, jsonType(other.Type))
	case err != nil:
		return row, err
	}
	if row.Input == "" {
		return row, errors.New(`no "input": a row needs its prompt`)
	}
	if len(row.Outputs) == 0 {
		return row, errors.New(`no "outputs": a row needs at least one reference answer`)
	}
	if row.MaxTokens < 0 {
		return row, fmt.Errorf("max_tokens is %d: want at least 1, or 0 to leave it open", row.MaxTokens)
	}
	if slices.Contains(row.Stop, "") {
		return row, errors.New(`"stop" has an empty text: every answer would be empty`)
	}
	if row.Scorer != "" {
		return row, CheckScorer(row.Scorer)
	}
	return row, nil
}

// halfCharacter reports whether JSON has an escape that stands for half a character,
// which encoding/json would replace.
func halfCharacter(text []byte) bool {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return false
		}
		r, n := escaped(text[at:])
		if utf16.IsSurrogate(r) {
			low, m := escaped(text[at+n:])
			if utf16.DecodeRune(r, low) == utf8.RuneError {
				return true
			}
			n += m
		}
		text = text[at+n:]
	}
}

// escaped is the code that an escape at the start of text stands for, 0 for none of four
// digits, and its length.
func escaped(text []byte) (code rune, n int) {
	if len(text) >= 6 && text[0] == '\\' && text[1] == 'u' {
		if code, err := strconv.ParseUint(string(text[2:6]), 16, 16); err == nil {
			return rune(code), 6
		}
	}
	return 0, min(2, len(text))
}

// jsonType is what a field of a row takes.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list of strings"
	case reflect.Int:
		return "a whole number"
	}
	return "a string"
}
