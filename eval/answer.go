package eval

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"blitzen/attention"
)

// MaxPrompts and MaxRepeats are what a run may have at most of [Header.Prompts]
// and [Header.Repeats]: their product over the arms is counted.
const (
	MaxPrompts = 1_000_000
	MaxRepeats = 10_000
)

// Format is [Header.Format] of the files that this package writes.
const Format = 1

// Header is the first line of a results file: what made the answers below it.
type Header struct {
	Format  int    `json:"evaluation"`
	Version string `json:"version"` // of the program
	Model   Model  `json:"model"`
	// Prompts is how many the whole run has, of all tasks, lengths and ways of
	// the answer prefix, before any is skipped.
	Prompts int `json:"prompts"`
	// Shard takes the prompts whose number is Shard modulo Shards; 0 of 1 takes
	// all.
	Shard  int `json:"shard"`
	Shards int `json:"shards"`
	// Repeats is how often a method that draws answers a prompt.
	Repeats  int                        `json:"repeats"`
	Arms     []Arm                      `json:"arms"`
	Settings map[string]json.RawMessage `json:"settings"` // all else that decides an answer
}

// Model is what answered.
type Model struct {
	Path         string `json:"path"`
	Architecture string `json:"architecture"`
	Hash         string `json:"hash"` // of the weights
	DType        string `json:"dtype"`
	Device       string `json:"device"`
}

// Arm is one way of reading the cache.
type Arm struct {
	Label  string `json:"label"`  // as tables name it
	Method string `json:"method"` // the backend
	// Series is the label without the budget: arms that differ in the budget
	// alone are points of one curve. Empty in older files.
	Series string `json:"series,omitempty"`
	Budget int    `json:"budget,omitempty"`
	Draws  bool   `json:"draws,omitempty"` // the answer depends on the seed
	// Settings are the flags of the method.
	Settings json.RawMessage `json:"settings,omitempty"`
}

// String is the label with the settings, all that tells arms apart.
func (a Arm) String() string { return fmt.Sprintf("%s %s", a.Label, a.Settings) }

// Answer is one line of a results file: what one arm said to one prompt.
type Answer struct {
	Prompt  int    `json:"prompt"` // its number in the whole run
	Arm     int    `json:"arm"`    // its place in Header.Arms
	Repeat  int    `json:"repeat"`
	ID      string `json:"id"`
	Task    string `json:"task"`
	Limit   int    `json:"limit"`         // the most tokens that the prompt was to have; 0: none was asked
	Prefix  string `json:"answer_prefix"` // [WithPrefix], [WithoutPrefix]
	Scorer  string `json:"scorer"`
	Skipped string `json:"skipped,omitempty"` // why the prompt was not put; the rest is empty then

	Label        string           `json:"attention"`
	Seed         uint64           `json:"attention_seed"`
	PromptTokens int              `json:"prompt_tokens"`
	Tokens       int              `json:"tokens"` // generated, the end token included
	Finish       string           `json:"finish_reason"`
	Text         string           `json:"text"`
	Expected     []string         `json:"expected"`
	Score        float64          `json:"score"` // 0 to 1
	Access       attention.Access `json:"access"`
	Percent      float64          `json:"access_percent"`
	// Divergence is measured on the way of exact attention's answer, if asked.
	Divergence *Divergence `json:"divergence,omitempty"`
}

// The two ways of a row's answer prefix: put at the start of the answer, or
// left out.
const (
	WithPrefix    = "with"
	WithoutPrefix = "without"
)

// Divergence compares next-token distributions with those of exact attention,
// step by step on exact attention's tokens; sums over Steps.
type Divergence struct {
	Steps int     `json:"steps"`
	KL    float64 `json:"kl"`       // Σ KL(exact ‖ this), nats
	Max   float64 `json:"max_kl"`   // the largest
	Same  int     `json:"same_top"` // steps with the same most probable token
}

// key names an answer within a run.
type key struct{ prompt, arm, repeat int }

func (a Answer) key() key { return key{a.Prompt, a.Arm, a.Repeat} }

// Matches says why answers under another header cannot go on under h, nil if
// they can: the model's weights, the arms and all settings must be the same.
// Paths, devices, versions and shards may differ.
func (h Header) Matches(other Header) error {
	if err := h.samePrompts(other); err != nil {
		return err
	}
	if is, was := fmt.Sprint(h.Arms), fmt.Sprint(other.Arms); is != was {
		return differs("attention", is, was)
	}
	return nil
}

func differs(what string, is, was any) error {
	return fmt.Errorf("%s differs: %v, and %v there", what, is, was)
}

// samePrompts is Matches but for the arms.
func (h Header) samePrompts(other Header) error {
	switch {
	case h.Format != other.Format:
		return differs("the format", h.Format, other.Format)
	case h.Model.Hash != other.Model.Hash:
		return differs("the hash of the model's weights", h.Model.Hash, other.Model.Hash)
	case h.Model.DType != other.Model.DType:
		return differs("the number type", h.Model.DType, other.Model.DType)
	case h.Prompts != other.Prompts:
		return differs("the number of prompts", h.Prompts, other.Prompts)
	case h.Repeats != other.Repeats:
		return differs("the number of attention seeds", h.Repeats, other.Repeats)
	}
	names := maps.Clone(h.Settings)
	maps.Copy(names, other.Settings)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if is, was := h.Settings[name], other.Settings[name]; !bytes.Equal(is, was) {
			return differs(name, cmp.Or(string(is), "not set"), cmp.Or(string(was), "not set"))
		}
	}
	return nil
}

// Results are the contents of a results file.
type Results struct {
	Header
	Answers []Answer // in the order of the file
	Path    string   // of the file that [ReadResults] read, for errors of [Merge]
}

// Merge joins results of shards of one run, of runs that overlap, and of runs
// that put the same prompts to other arms. The answers come in the order that
// one run would have written them. What two files both hold must be the same in
// both; an error names the file.
func Merge(parts ...Results) (Results, error) {
	if len(parts) == 0 {
		return Results{}, errors.New("merge: no results")
	}
	out := Results{Header: parts[0].Header}
	out.Shard, out.Shards, out.Arms = 0, 1, nil
	held := map[key][]byte{}
	for i, part := range parts {
		if err := part.samePrompts(out.Header); err != nil {
			return Results{}, fmt.Errorf("%s cannot be joined with %s: %w", part.name(i), parts[0].name(0), err)
		}
		if err := out.add(part, held); err != nil {
			return Results{}, fmt.Errorf("%s cannot be joined with the files before it: %w", part.name(i), err)
		}
	}
	slices.SortStableFunc(out.Answers, func(a, b Answer) int {
		return cmp.Or(cmp.Compare(a.Prompt, b.Prompt), cmp.Compare(a.Arm, b.Arm), cmp.Compare(a.Repeat, b.Repeat))
	})
	return out, nil
}

// name is how errors name the i-th of several.
func (r Results) name(i int) string {
	if r.Path == "" {
		return fmt.Sprintf("file %d", i+1)
	}
	return r.Path
}

// add takes the answers of a part, its arms renumbered; held are those so far.
func (r *Results) add(part Results, held map[key][]byte) error {
	place := map[int]int{skippedArm: skippedArm}
	for i, arm := range part.Arms {
		same := func(a Arm) bool { return a.String() == arm.String() }
		if place[i] = slices.IndexFunc(r.Arms, same); place[i] < 0 {
			place[i] = len(r.Arms)
			r.Arms = append(r.Arms, arm)
		}
	}
	for _, a := range part.Answers {
		a.Arm = place[a.Arm]
		line, err := json.Marshal(a)
		if err != nil {
			return err
		}
		other, ok := held[a.key()]
		switch {
		case !ok:
			held[a.key()] = line
			r.Answers = append(r.Answers, a)
		case !bytes.Equal(line, other):
			return fmt.Errorf("prompt %d (%s), %s: the answers differ", a.Prompt, a.ID, a.Label)
		}
	}
	return nil
}

// Missing is how many answers of the header's shard are not there.
func (r Results) Missing() int {
	prompts := (r.Prompts - r.Shard + r.Shards - 1) / r.Shards
	want := 0
	for _, a := range r.Arms {
		want += prompts * r.repeats(a)
	}
	for _, a := range r.Answers {
		if a.Skipped == "" {
			want--
			continue
		}
		for _, arm := range r.Arms {
			want -= r.repeats(arm)
		}
	}
	return want
}

// RepeatsOf is how often an arm answers a prompt.
func (h Header) RepeatsOf(arm int) int { return h.repeats(h.Arms[arm]) }

func (h Header) repeats(a Arm) int {
	if a.Draws {
		return h.Repeats
	}
	return 1
}
