package eval

import (
	"encoding/json"
	"math"
	"slices"

	"blitzen/attention"
)

// Table holds the figures of all arms over the same prompts: those of one task,
// or of several that weigh the same.
type Table struct {
	Limit  int // tokens of a prompt; 0: none was asked
	Prefix string
	Tasks  []string
	Lines  []Line // one an arm, in their order
	Seed   uint64 // of the intervals

	values [][][]float64 // by arm, task, prompt: the mean over repeats
}

// Line is one arm's figures.
type Line struct {
	Arm
	Prompts, Answers int
	Exact            int      // answers that score 1
	Nulls            int      // answers that say nothing
	Score            Interval // 0 to 1
	Normalised       Interval // share of exact attention's score; NaN without that
	// Access is summed over all answers. Percent is its KV access, but where all
	// tasks score by ScorerSubstring the mean of the tasks' percentages, as
	// HELMET is reported.
	Access     attention.Access
	Percent    float64
	Divergence Divergence
}

// exactMethod is the method that others are measured by.
const exactMethod = "dense"

// Summarize makes a table for each task, length and way of the answer prefix,
// and one over all tasks where there are several. A prompt counts once all arms
// have answered it. seed is that of the intervals.
func Summarize(r Results, seed uint64) []Table {
	var tables []Table
	for _, g := range groups(r) {
		for _, task := range g.tasks {
			tables = append(tables, g.table(r.Arms, []taskAnswers{task}, seed))
		}
		if len(g.tasks) > 1 {
			tables = append(tables, g.table(r.Arms, g.tasks, seed))
		}
	}
	return tables
}

// group is what one line of flags asked alike: all tasks of a length.
type group struct {
	limit  int
	prefix string
	tasks  []taskAnswers
}

// taskAnswers are the answers to a task's prompts, in the prompts' order.
type taskAnswers struct {
	task    string
	prompts [][]Answer
}

// groups sorts answers of complete prompts.
func groups(r Results) []*group {
	want := 0
	for _, a := range r.Arms {
		want += r.repeats(a)
	}
	byPrompt := map[int][]Answer{}
	for _, a := range r.Answers {
		if a.Skipped == "" {
			byPrompt[a.Prompt] = append(byPrompt[a.Prompt], a)
		}
	}
	var prompts []int
	for n, answers := range byPrompt {
		if len(answers) == want {
			prompts = append(prompts, n)
		}
	}
	slices.Sort(prompts)
	var all []*group
	for _, n := range prompts {
		a := byPrompt[n][0]
		i := slices.IndexFunc(all, func(g *group) bool { return g.limit == a.Limit && g.prefix == a.Prefix })
		if i < 0 {
			i = len(all)
			all = append(all, &group{limit: a.Limit, prefix: a.Prefix})
		}
		all[i].add(byPrompt[n])
	}
	return all
}

func (g *group) add(answers []Answer) {
	i := slices.IndexFunc(g.tasks, func(t taskAnswers) bool { return t.task == answers[0].Task })
	if i < 0 {
		i = len(g.tasks)
		g.tasks = append(g.tasks, taskAnswers{task: answers[0].Task})
	}
	g.tasks[i].prompts = append(g.tasks[i].prompts, answers)
}

func (g *group) table(arms []Arm, tasks []taskAnswers, seed uint64) Table {
	t := Table{Limit: g.limit, Prefix: g.prefix, Seed: seed}
	for _, task := range tasks {
		t.Tasks = append(t.Tasks, task.task)
	}
	exact := slices.IndexFunc(arms, func(a Arm) bool { return a.Method == exactMethod })
	for i, arm := range arms {
		line, values := newLine(i, tasks)
		line.Arm = arm
		t.Lines, t.values = append(t.Lines, line), append(t.values, values)
	}
	for i := range t.Lines {
		t.Lines[i].Score = Mean(t.values[i], seed)
		nan := math.NaN()
		t.Lines[i].Normalised = Interval{nan, nan, nan}
		if exact >= 0 {
			t.Lines[i].Normalised = Ratio(t.values[i], t.values[exact], seed)
		}
	}
	return t
}

// newLine counts the answers of one arm; values are its scores by task and
// prompt.
func newLine(arm int, tasks []taskAnswers) (line Line, values [][]float64) {
	percents, substring := 0.0, true
	for _, task := range tasks {
		var scores []float64
		var access attention.Access
		for _, prompt := range task.prompts {
			sum, n := 0.0, 0
			for _, a := range prompt {
				if a.Arm != arm {
					continue
				}
				sum, n = sum+a.Score, n+1
				line.add(a)
				access = access.Add(a.Access)
				substring = substring && a.Scorer == ScorerSubstring
			}
			scores = append(scores, sum/float64(n))
		}
		line.Prompts += len(scores)
		percents += access.Percent() / float64(len(tasks))
		line.Access = line.Access.Add(access)
		values = append(values, scores)
	}
	line.Percent = line.Access.Percent()
	if substring {
		line.Percent = percents
	}
	return line, values
}

func (l *Line) add(a Answer) {
	l.Answers++
	if a.Score == 1 {
		l.Exact++
	}
	if Null(a.Text) {
		l.Nulls++
	}
	if d := a.Divergence; d != nil {
		l.Divergence.Steps += d.Steps
		l.Divergence.Same += d.Same
		l.Divergence.KL += d.KL
		l.Divergence.Max = max(l.Divergence.Max, d.Max)
	}
}

// Pair is one arm less another, on the same prompts.
type Pair struct {
	A, B       Arm
	Difference Interval
}

// Pairs are the differences between the arms of method a and those of method b
// that have the same budget and parents, where both have them.
func (t Table) Pairs(a, b string) []Pair {
	var pairs []Pair
	for i, one := range t.Lines {
		for j, two := range t.Lines {
			if one.Method == a && two.Method == b && one.comparable(two.Arm) {
				pairs = append(pairs, Pair{one.Arm, two.Arm, Difference(t.values[i], t.values[j], t.Seed)})
			}
		}
	}
	return pairs
}

// comparable reports whether two arms differ by the method alone, as far as
// both have a budget and parents.
func (a Arm) comparable(b Arm) bool {
	budgets := a.Budget == b.Budget || a.Budget == 0 || b.Budget == 0
	parents := func(a Arm) string {
		var s struct{ Parents string }
		_ = json.Unmarshal(a.Settings, &s) // without parents, or without settings, ""
		return s.Parents
	}
	pa, pb := parents(a), parents(b)
	return budgets && (pa == pb || pa == "" || pb == "")
}
