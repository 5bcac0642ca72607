package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"blitzen/eval"
	"blitzen/eval/ruler"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sourceFlags name the prompts of an evaluation.
type sourceFlags struct {
	single   bool // one task, of --task
	tasks    string
	lengths  string
	perTask  int
	taskSeed uint64
	prefix   string
	scorer   string
	limit    int
	truncate string
	skipBad  bool
}

// defaultSamples is how many prompts are made of a task.
const defaultSamples = 48

// defaultAnswer is the longest answer where neither flag nor task says.
const defaultAnswer = 64

// checkAnswer refuses a longest answer, -n, of commands that take it from the task.
func checkAnswer(f *pflag.FlagSet, maxTokens int) error {
	if !atLeastOne(f, "max-tokens", maxTokens) {
		return usagef("-n %d: want at least 1; left out, it is by the task, else %d", maxTokens, defaultAnswer)
	}
	return nil
}

// defaultTaskSeed is that of the published rows of RULER.
const defaultTaskSeed = 42

// accessTasks are access-code tasks by the number of codes in a prompt;
// access_N is one too.
var accessTasks = map[string]int{"access_few": 8, "access_dense": 40}

func (s *sourceFlags) register(f *pflag.FlagSet) {
	listVar(f, &s.tasks, "tasks", "", "access_few", "put `NAMES`: access_few, access_dense, access_N (N codes), json_kv,\nniah_single_1, niah_multikey_2, niah_multikey_3, vt, cwe, fwe,\nniah_multivalue_noise, niah_multiquery_noise,\nor files of rows, FILE.jsonl")
	listVar(f, &s.lengths, "length", "", "4096", "make prompts of at most `N` tokens, chat template included")
	f.IntVar(&s.perTask, "samples", 0, "`N` prompts of each task and length (default: 48, or all of a file)")
	f.Uint64Var(&s.taskSeed, "task-seed", defaultTaskSeed, "seed `N` of prompts that are made")
	f.StringVar(&s.prefix, "answer-prefix", "with", "a row's answer prefix begins the answer: `WAY` with, without or both")
	f.StringVar(&s.scorer, "scorer", eval.ScorerAll, "score rows of files that name no scorer by `NAME`: choice, exact,\nstring_match_all, string_match_part, substring_exact_match")
	f.IntVar(&s.limit, "limit", 0, "rows of files: at most `N` tokens, chat template included (default: what the model reads)")
	f.StringVar(&s.truncate, "truncate", "", "rows of files above the limit: cut out their `PART`: middle (default: an error)")
	f.BoolVar(&s.skipBad, "skip-bad", false, "leave out bad rows of files, naming each, in place of ending")
}

// flag names the tasks.
func (s *sourceFlags) flag() string {
	if s.single {
		return "--task"
	}
	return "--tasks"
}

// check refuses flags before a model is opened.
func (s *sourceFlags) check(f *pflag.FlagSet) error {
	if len(choices(s.tasks)) == 0 || len(choices(s.lengths)) == 0 {
		return usagef("nothing to do: %s %q, --length %q", s.flag(), s.tasks, s.lengths)
	}
	if err := eval.CheckScorer(s.scorer); err != nil {
		return usagef("--scorer: %w", err)
	}
	switch {
	case s.prefix != eval.WithPrefix && s.prefix != eval.WithoutPrefix && s.prefix != "both":
		return usagef("--answer-prefix %q: want with, without or both", s.prefix)
	case s.truncate != "" && s.truncate != "middle":
		return usagef("--truncate %q: want middle", s.truncate)
	case !atLeastOne(f, "limit", s.limit):
		return usagef("--limit %d: want at least 1; left out, it is what the model reads", s.limit)
	case !atLeastOne(f, "samples", s.perTask) || s.perTask > eval.MaxPrompts:
		return usagef("--samples %d: want 1 to %d; left out, it is %d, or all rows of a file", s.perTask, eval.MaxPrompts, defaultSamples)
	}
	named := map[string]bool{}
	for _, name := range choices(s.tasks) {
		if _, err := s.accessCodes(name); err != nil {
			return err
		}
		// Rows of a file are called by its name, in tables and in --output.
		if named[filepath.Base(name)] {
			return usagef("%s: %s is named twice: leave one out, or rename a file", s.flag(), filepath.Base(name))
		}
		named[filepath.Base(name)] = true
	}
	_, err := s.eachLength()
	return err
}

func (s *sourceFlags) eachLength() ([]int, error) {
	var out []int
	for _, text := range choices(s.lengths) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, usagef("--length %q: want numbers of tokens, separated by commas", text)
		}
		out = append(out, n)
	}
	return out, nil
}

// accessCodes is the number of codes that an access-code task has in a prompt,
// 0 for other tasks.
func (s *sourceFlags) accessCodes(name string) (int, error) {
	if n, ok := accessTasks[name]; ok {
		return n, nil
	}
	text, ok := strings.CutPrefix(name, "access_")
	if !ok {
		if !isFile(name) && name != eval.TaskJSONKV && !ruler.IsTask(name) {
			first := ""
			if s.single {
				first = codesTask + ", "
			}
			return 0, usagef("%s %q: want %saccess_few, access_dense, access_N, %s, %s or a file that ends in .jsonl",
				s.flag(), name, first, eval.TaskJSONKV, strings.Join(ruler.Tasks(), ", "))
		}
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if most := eval.MostCodes(); err != nil || n < 1 || n > most {
		return 0, usagef("%s %q: want access_few, access_dense or access_N, with N codes in a prompt, 1 to %d", s.flag(), name, most)
	}
	return n, nil
}

func isFile(task string) bool { return strings.HasSuffix(task, ".jsonl") }

// rowSource makes the rows of one task at one length.
type rowSource struct {
	limit    int // tokens of a prompt; 0: rows of a file, as long as they are
	rows     int
	prefixed bool                          // rows have an answer prefix
	row      func(i int) (eval.Row, error) // i never falls, for a source that draws
	where    func(row eval.Row) string     // names a row in errors
	file     bool
}

// sources are those that the flags name, by length and then task. Files come
// once, after them. Answers of tasks that do not say how long they are have up to
// answer tokens.
func (s *sourceFlags) sources(cmd *cobra.Command, answer int, encode encoder) ([]rowSource, error) {
	lengths, err := s.eachLength()
	if err != nil {
		return nil, err
	}
	var all []rowSource
	for _, length := range lengths {
		for _, name := range choices(s.tasks) {
			if isFile(name) {
				continue
			}
			if most := encode.opened.Config.MaxPositions; length > most {
				return nil, usagef("--length %d: the model's limit is %d tokens", length, most)
			}
			one, err := s.made(name, length, answer, encode)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
	}
	for _, name := range choices(s.tasks) {
		if !isFile(name) {
			continue
		}
		one, err := s.read(cmd, name)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// made is a task whose rows are made.
func (s *sourceFlags) made(name string, length, answer int, encode encoder) (rowSource, error) {
	out := rowSource{limit: length, rows: s.perTask, where: func(row eval.Row) string { return row.ID }}
	if out.rows == 0 {
		out.rows = defaultSamples
	}
	codes, err := s.accessCodes(name)
	switch {
	case err != nil:
		return out, err
	case codes > 0:
		// The length is that of the prompt: near the model's limit, less its answer.
		if room := encode.opened.Config.MaxPositions - answer; room > 0 {
			length = min(length, room)
		}
		a := eval.AccessCodes{Tokens: length, Codes: codes, Seed: s.taskSeed}
		out.row = func(i int) (eval.Row, error) {
			row, err := a.Row(i, func(text string) (int, error) { return encode.count(text, "") })
			row.Task = name
			return row, err
		}
	case name == eval.TaskJSONKV:
		out.prefixed = true
		kv := eval.JSONKV{Tokens: length, Seed: s.taskSeed}
		out.row = func(i int) (eval.Row, error) { return kv.Row(i, encode.count) }
	default:
		out.prefixed = true
		count, err := encode.counter()
		if err != nil {
			return out, err
		}
		rows, err := ruler.New(name, ruler.Options{Tokens: length, Seed: s.taskSeed, Count: count})
		if err != nil {
			return out, atLength(length, err)
		}
		out.row = rows.Row
	}
	return out, nil
}

// atLength names --length in an error of a row that is made with so many tokens,
// where another number helps.
func atLength(tokens int, err error) error {
	var length *eval.LengthError
	if errors.As(err, &length) {
		return usagef("--length %d: %w", tokens, err)
	}
	return asUsage(err)
}

// read is the rows of a file.
func (s *sourceFlags) read(cmd *cobra.Command, path string) (rowSource, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return rowSource{}, usagef("%s: %s is not a regular file", s.flag(), path) // it is read twice
	}
	file, err := os.Open(path)
	if err != nil {
		return rowSource{}, usagef("%s: %v", s.flag(), err)
	}
	defer file.Close()
	var bad func(error)
	if s.skipBad {
		bad = func(err error) { fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v: skipped\n", path, err) }
	}
	rows, err := eval.ReadRows(file, bad)
	if err == nil {
		rows, err = s.answerable(rows, bad)
	}
	if err != nil && s.single { // a command without --skip-bad
		return rowSource{}, usagef("%s: %w: mend the row", path, err)
	}
	if err != nil {
		return rowSource{}, usagef("%s: %w: mend the row, or leave such rows out with --skip-bad", path, err)
	}
	if s.perTask > 0 && len(rows) > s.perTask {
		rows = rows[:s.perTask]
	}
	if len(rows) == 0 {
		return rowSource{}, usagef("%s: there are no rows", path)
	}
	out := rowSource{rows: len(rows), file: true}
	for _, row := range rows {
		out.prefixed = out.prefixed || row.AnswerPrefix != ""
	}
	name := strings.TrimSuffix(filepath.Base(path), ".jsonl")
	out.row = func(i int) (eval.Row, error) {
		row := rows[i]
		if row.Task == "" {
			row.Task = name
		}
		if row.ID == "" {
			row.ID = fmt.Sprintf("%s-line%d", name, row.Line)
		}
		if row.Scorer == "" {
			row.Scorer = s.scorer
		}
		return row, nil
	}
	out.where = func(row eval.Row) string { return fmt.Sprintf("%s: line %d", path, row.Line) }
	return out, nil
}

// answerable are the rows whose references an answer can have or miss. bad takes errors
// of others, or is nil.
func (s *sourceFlags) answerable(rows []eval.Row, bad func(error)) ([]eval.Row, error) {
	var kept []eval.Row
	for _, row := range rows {
		err := eval.CheckReferences(cmp.Or(row.Scorer, s.scorer), row.Outputs)
		if err == nil {
			kept = append(kept, row)
			continue
		}
		err = fmt.Errorf("line %d: %w", row.Line, err)
		if bad == nil {
			return nil, err
		}
		bad(err)
	}
	return kept, nil
}

// fileHash tells one file of rows from another.
func fileHash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

func shortHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// errBadRow marks a row of a file that cannot be put.
var errBadRow = errors.New("the row cannot be put")
