package eval

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// asFile writes rows as JSONL.
func asFile(t *testing.T, rows []Row) *bytes.Buffer {
	t.Helper()
	var file bytes.Buffer
	out := json.NewEncoder(&file)
	for _, row := range rows {
		if err := out.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	return &file
}

func TestRowsRoundTrip(t *testing.T) {
	rows := []Row{
		{Index: 0, ID: "a", Input: "one <b> & two\nlines \u2028 and ü?", Outputs: []string{"x"}, Scorer: ScorerExact, Length: 9, Codes: 2},
		{Index: 7, ID: "b", Input: strings.Repeat("long ", 50_000), Outputs: []string{"x", "y"}, AnswerPrefix: " It is", Stop: []string{"\n"}},
	}
	file := asFile(t, rows)
	got, err := ReadRows(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		rows[i].Line = i + 1
	}
	if !reflect.DeepEqual(got, rows) {
		t.Errorf("read other rows than were written: %.200v", got)
	}
}

func TestReadRows(t *testing.T) {
	const foreign = `{"task": "vt", "index": 3, "input": "q", "outputs": ["a"], "length": 5}`
	for name, file := range map[string]string{
		"no last newline": foreign + "\n" + foreign,
		"byte order":      "\ufeff" + foreign + "\n" + foreign,
		"escapes":         `{"index": 3, "input": "\ud83d\ude00 \\ud83d \\\\", "outputs": ["a\"\u00e9"]}` + "\n" + foreign,
		"blank lines":     "\n" + foreign + "\r\n \n" + foreign + "\n\n",
	} {
		if rows, err := ReadRows(strings.NewReader(file), nil); err != nil || len(rows) != 2 || rows[1].Index != 3 {
			t.Errorf("%s: rows %v, error %v", name, rows, err)
		}
	}
	for name, c := range map[string]struct{ file, want string }{
		"syntax":     {foreign + "\n\n{\"input\": ", "line 3: unexpected end"},
		"two a line": {foreign + foreign, "line 1: invalid character"},
		"type":       {`{"input": "q", "outputs": "a"}`, `line 1: "outputs" is of type string: want a list of strings`},
		"list":       {`["q", "a"]`, "line 1: JSON of type array: a row is an object"},
		"element":    {`{"input": "q", "outputs": [3]}`, `line 1: "outputs" is of type number: want a string`},
		"number":     {`{"input": "q", "outputs": ["a"], "max_tokens": 1.5}`, `line 1: "max_tokens" is of type number 1.5: want a whole number`},
		"no input":   {foreign + "\n" + `{"outputs": ["a"]}`, `line 2: no "input"`},
		"no outputs": {`{"input": "q"}`, `line 1: no "outputs"`},
		"scorer":     {`{"input": "q", "outputs": ["a"], "scorer": "f1"}`, `line 1: scorer "f1": want one of choice`},
		"max tokens": {`{"input": "q", "outputs": ["a"], "max_tokens": -2}`, "line 1: max_tokens is -2: want at least 1"},
		"stop":       {`{"input": "q", "outputs": ["a"], "stop": ["b", ""]}`, `line 1: "stop" has an empty text`},
		"encoding":   {"{\"input\": \"\xff\", \"outputs\": [\"a\"]}", "line 1: not UTF-8"},
		"half":       {`{"input": "q \\\ud83d", "outputs": ["a"]}`, "line 1: an escape is half a character"},
		"halves":     {`{"input": "\ud83d\ud83d", "outputs": ["a"]}`, "line 1: an escape is half a character"},
		"low half":   {`{"input": "q", "outputs": ["\uDE00"]}`, "line 1: an escape is half a character"},
	} {
		if _, err := ReadRows(strings.NewReader(c.file), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
}

// Bad rows are named and left out, if asked; the others stay.
func TestReadRowsSkips(t *testing.T) {
	const good = `{"input": "q", "outputs": ["a"]}`
	var named []string
	rows, err := ReadRows(strings.NewReader(good+"\n{\n\n"+good+"\n{}\n"), func(err error) { named = append(named, err.Error()) })
	if err != nil || len(rows) != 2 || rows[1].Line != 4 || len(named) != 2 || !strings.HasPrefix(named[0], "line 2: ") || !strings.HasPrefix(named[1], "line 5: no ") {
		t.Errorf("rows %v, named %q, error %v", rows, named, err)
	}
}

// FuzzReadRows: whatever is read can be written and read again, unchanged.
func FuzzReadRows(f *testing.F) {
	f.Add([]byte(`{"index":1,"id":"a","input":"q","outputs":["a","b"],"answer_prefix":" A","scorer":"exact","length":3,"codes":8}`))
	f.Add([]byte("\n{\"input\":\"\\ud800\",\"outputs\":[\"\"]}\r\n{}"))
	f.Fuzz(func(t *testing.T, file []byte) {
		rows, err := ReadRows(bytes.NewReader(file), nil)
		if err != nil {
			return
		}
		got, err := ReadRows(asFile(t, rows), nil)
		for i := range rows {
			rows[i].Line = i + 1
		}
		if err != nil || !reflect.DeepEqual(got, rows) {
			t.Fatalf("rows %v became %v (error %v)", rows, got, err)
		}
	})
}
