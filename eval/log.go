package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"
)

// Log is a results file that grows by an answer at a time. A run that was
// killed loses at most the answer that it was writing: each is one append,
// synced to the disk before the next.
type Log struct {
	file *os.File
	held map[key]bool
}

// OpenLog opens the results file at path for the answers of a run, or makes it.
// What an earlier run with the same settings left comes back and is kept; a
// last line that was torn by a crash is cut off. A file with other settings, or
// of another kind, is refused and left as it is, as is one that another process
// has open.
func OpenLog(path string, h Header) (*Log, []Answer, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		// Reading a pipe or a device to its end may never end.
		return nil, nil, fmt.Errorf("%s is not a regular file: name another", path)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, err
	}
	l := &Log{file: file, held: map[key]bool{}}
	answers, err := l.resume(h)
	if err != nil {
		l.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, answers, nil
}

func (l *Log) resume(h Header) ([]Answer, error) {
	if err := syscall.Flock(int(l.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another process writes to it: %w", err)
	}
	data, err := readAll(l.file)
	if err != nil {
		return nil, err
	}
	first, err := encode(h)
	if err != nil {
		return nil, err
	}
	if !bytes.ContainsRune(data, '\n') {
		// Nothing, or a header that was torn.
		if !bytes.HasPrefix(first, data) {
			return nil, errors.New("it is not a results file: name another")
		}
		if err := l.file.Truncate(0); err != nil {
			return nil, err
		}
		return nil, l.write(first)
	}
	old, end, err := parse(data)
	if err != nil {
		return nil, err
	}
	if err := h.Matches(old.Header); err != nil {
		return nil, fmt.Errorf("it holds answers of another run; %w: name another file, or ask for the same", err)
	}
	if h.Shard != old.Shard || h.Shards != old.Shards {
		return nil, fmt.Errorf("it holds shard %d/%d, and this is %d/%d: name another file", old.Shard, old.Shards, h.Shard, h.Shards)
	}
	for _, a := range old.Answers {
		l.held[a.key()] = true
	}
	return old.Answers, l.file.Truncate(int64(end))
}

// Holds reports whether the file has the answer to a prompt by an arm, or says
// that the prompt was skipped.
func (l *Log) Holds(prompt, arm, repeat int) bool {
	return l.held[key{prompt, arm, repeat}] || l.held[key{prompt, skippedArm, 0}]
}

// skippedArm is the arm of an answer that says why a prompt was skipped.
const skippedArm = -1

// Skip notes that a prompt was not put to any arm, and why.
func Skip(prompt int, row Row, prefix, why string) Answer {
	return Answer{Prompt: prompt, Arm: skippedArm, ID: row.ID, Task: row.Task, Prefix: prefix, Scorer: row.Scorer, Skipped: why}
}

// Append writes an answer and waits until it is on the disk.
func (l *Log) Append(a Answer) error {
	line, err := encode(a)
	if err != nil {
		return err
	}
	l.held[a.key()] = true
	return l.write(line)
}

func (l *Log) write(line []byte) error {
	if _, err := l.file.Write(line); err != nil {
		return err
	}
	return l.file.Sync()
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

func encode(v any) ([]byte, error) {
	var line bytes.Buffer
	out := json.NewEncoder(&line)
	out.SetEscapeHTML(false)
	err := out.Encode(v)
	return line.Bytes(), err
}

// mostResults is the largest results file, in bytes: an answer takes some hundreds.
const mostResults = 1 << 30

func readAll(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > mostResults {
		return nil, fmt.Errorf("it has more than %d bytes: it is no results file", mostResults)
	}
	return io.ReadAll(f)
}

// ReadResults reads a results file, which may be one that is being written: a
// last line without its end is left out.
func ReadResults(path string) (Results, error) {
	f, err := os.Open(path)
	if err != nil {
		return Results{}, err
	}
	defer f.Close()
	data, err := readAll(f)
	if err != nil {
		return Results{}, fmt.Errorf("%s: %w", path, err)
	}
	r, _, err := parse(data)
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	r.Path = path
	return r, nil
}

// WriteResults writes a results file that [ReadResults] reads.
func WriteResults(w io.Writer, r Results) error {
	line, err := encode(r.Header)
	if err != nil {
		return err
	}
	if _, err := w.Write(line); err != nil {
		return err
	}
	for _, a := range r.Answers {
		if line, err = encode(a); err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// parse reads all whole lines; end is where they end.
func parse(data []byte) (r Results, end int, err error) {
	lines := map[key]int{}
	prompts := map[int]Answer{} // the first answer to each
	for number := 1; ; number++ {
		n := bytes.IndexByte(data[end:], '\n')
		if n < 0 {
			break
		}
		line := data[end : end+n]
		end += n + 1
		if number == 1 {
			if err := decode(line, &r.Header); err != nil || r.Format != Format || r.Prompts < 0 || r.Prompts > MaxPrompts ||
				r.Repeats < 1 || r.Repeats > MaxRepeats || r.Shard < 0 || r.Shards <= r.Shard {
				return r, 0, errors.New("it is not a results file of this version: its first line is no header")
			}
			continue
		}
		var a Answer
		if err := decode(line, &a); err != nil {
			return r, 0, fmt.Errorf("line %d: %w", number, err)
		}
		if err := cmp.Or(r.belongs(a), a.agrees()); err != nil {
			return r, 0, fmt.Errorf("line %d: %w", number, err)
		}
		if before := lines[a.key()]; before > 0 {
			return r, 0, fmt.Errorf("line %d: prompt %d, arm %d, repeat %d is in line %d already: keep one of them", number, a.Prompt, a.Arm, a.Repeat, before)
		}
		if first, ok := prompts[a.Prompt]; !ok {
			prompts[a.Prompt] = a
		} else if err := first.samePrompt(a); err != nil {
			return r, 0, fmt.Errorf("line %d: %w", number, err)
		}
		lines[a.key()] = number
		r.Answers = append(r.Answers, a)
	}
	if r.Format != Format {
		return r, 0, errors.New("it is not a results file: it has no header")
	}
	return r, end, nil
}

// decode is json.Unmarshal that refuses fields of other names: one that was damaged would read as 0.
func decode(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("more follows the object")
	}
	return nil
}

// belongs says why an answer cannot be one of a run with this header: the file
// was changed by hand, or joined from several.
func (h Header) belongs(a Answer) error {
	if a.Arm < skippedArm || a.Arm >= len(h.Arms) || a.Prompt < 0 || a.Prompt >= h.Prompts {
		return fmt.Errorf("prompt %d, arm %d: the header has %d prompts and %d arms", a.Prompt, a.Arm, h.Prompts, len(h.Arms))
	}
	label, repeats := "", 1
	if a.Arm != skippedArm {
		label, repeats = h.Arms[a.Arm].Label, h.RepeatsOf(a.Arm)
	}
	switch {
	case a.Repeat < 0 || a.Repeat >= repeats:
		return fmt.Errorf("prompt %d, arm %d, repeat %d: the header has %d", a.Prompt, a.Arm, a.Repeat, repeats)
	case a.Label != label || (a.Arm == skippedArm) != (a.Skipped != ""):
		return fmt.Errorf("prompt %d, arm %d: the answer is one of %q, and the header's arm is %q", a.Prompt, a.Arm, a.Label, label)
	case a.Score < 0 || a.Score > 1 || a.Percent < 0 || a.Percent > maxPercent:
		return fmt.Errorf("prompt %d, arm %d: score %v, access %v %%: want 0 to 1, and at least 0", a.Prompt, a.Arm, a.Score, a.Percent)
	}
	return nil
}

// agrees says why an answer's figures cannot have been counted.
func (a Answer) agrees() error {
	c := a.Access
	if min(c.Routed, c.Rows, c.Suffix, c.Values, c.Dense, c.RoutedBytes, c.RowBytes, c.ValueBytes, c.Vectors) < 0 || math.Abs(c.Percent()-a.Percent) > 1e-9*a.Percent {
		return fmt.Errorf("prompt %d, arm %d: access %v %%, and its counts make %v: the line was changed", a.Prompt, a.Arm, a.Percent, c.Percent())
	}
	d := a.Divergence
	if d == nil {
		return nil
	}
	// Sums of float64 are off by less than this for as many steps as a model has.
	steps := float64(d.Steps)
	if d.Same < 0 || d.Same > d.Steps || d.Max < 0 || d.KL < -1e-9*steps || d.KL > d.Max*steps+1e-9*(1+d.Max)*steps {
		return fmt.Errorf("prompt %d, arm %d: the divergence of %d steps is %v, at most %v, and %d have the same most probable token: the line was changed", a.Prompt, a.Arm, d.Steps, d.KL, d.Max, d.Same)
	}
	return nil
}

// samePrompt says why two answers cannot be to one prompt, as their number says.
func (a Answer) samePrompt(b Answer) error {
	type row struct {
		ID, Task, Prefix, Scorer string
		Limit                    int
	}
	is, was := row{b.ID, b.Task, b.Prefix, b.Scorer, b.Limit}, row{a.ID, a.Task, a.Prefix, a.Scorer, a.Limit}
	if is != was && a.Skipped == "" && b.Skipped == "" {
		return fmt.Errorf("prompt %d is %+v here, and %+v before: the line was changed", a.Prompt, is, was)
	}
	return nil
}

// maxPercent is more than any access: a method may read a row again and again.
const maxPercent = 1e9
