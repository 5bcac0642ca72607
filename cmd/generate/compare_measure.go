package main

import (
	"time"

	"blitzen/decode"
	"blitzen/eval"
	"blitzen/eval/comparison"
	"blitzen/eval/divergence"

	"github.com/spf13/cobra"
)

// measurement is one run of generate compare.
type measurement struct {
	*compareFlags
	*opened
	question
	cmd      *cobra.Command
	capacity int
	log      *stages
}

// run reads the prompt once for both methods, and once more for the control. With an
// error the result is nil, or what was compared before.
func (m *measurement) run() (*compared, error) {
	defer m.log.bar.done() // before an error is told
	begin := time.Now()
	p, err := m.prefill(0)
	if err != nil {
		return nil, err
	}
	r := m.newResult(time.Since(begin))
	m.log.end("read the prompt, %s", begin, m.describe(m.question))
	exact, err := m.methods(p, r)
	p.Session.Close() // before another cache is made
	if err == nil && m.control {
		r.Control, err = m.measureControl(exact)
	}
	if len(r.Seeds) == 0 {
		return nil, err
	}
	r.EndedEarly = err != nil
	r.overSeeds()
	return r, err
}

// methods runs the base and then the other, which is measured against it. It
// returns exact attention along the base's tokens, if the control wants it.
func (m *measurement) methods(p comparison.Prompt, r *compared) (exact comparison.Trajectory, err error) {
	a, b := m.side(m.a), m.side(m.b)
	defer a.groups.close()
	defer b.groups.close()
	if err := m.printSpreads(p, a, b); err != nil {
		return exact, err
	}
	if r.A, err = m.answer(p, a, m.firstSeed()); err != nil {
		return exact, err
	}
	m.logAnswer(r.A)
	build, err := m.builderOf(a, m.firstSeed())
	if err != nil {
		return exact, err
	}
	base, err := p.Record(m.cmd.Context(), build, r.A.TokenIDs)
	if err != nil {
		return exact, err
	}
	seeds := m.seeds
	if b.name == "dense" {
		seeds = 1
	}
	for i := range seeds {
		if err := m.seed(p, b, m.firstSeed()+uint64(i), base, r); err != nil {
			return exact, err
		}
	}
	if m.report != "" {
		if err := m.rows(p, b, r); err != nil {
			return exact, err
		}
	}
	exact = base
	if m.control && m.a != "dense" {
		if build, err = m.builderOf(m.side("dense"), 0); err == nil {
			exact, err = p.Record(m.cmd.Context(), build, r.A.TokenIDs)
		}
	}
	return exact, err
}

// rows measures where exact attention looks and what the second method reads,
// along the base's tokens.
func (m *measurement) rows(p comparison.Prompt, b attentionFlags, r *compared) error {
	build, err := m.builderOf(b, m.firstSeed())
	if err != nil {
		return err
	}
	if r.mass, err = p.Mass(m.cmd.Context(), r.A.TokenIDs); err != nil {
		return err
	}
	r.reads, _, err = p.Reads(m.cmd.Context(), build, r.A.TokenIDs)
	return err
}

// seed measures the second method with one attention seed.
func (m *measurement) seed(p comparison.Prompt, b attentionFlags, seed uint64, base comparison.Trajectory, r *compared) error {
	begin := time.Now()
	free, err := m.answer(p, b, seed)
	if err != nil {
		return err
	}
	if len(r.Seeds) == 0 {
		r.B, begin = free, time.Now()
		m.logAnswer(free)
	}
	one := seedResult{Seed: seed, TokenIDs: free.TokenIDs, AccessPercent: free.Attention.AccessPercent, BytesPercent: free.Attention.BytesPercent, Exact: free.Exact}
	one.setMatch(base.Tokens, free.TokenIDs)
	build, err := m.builderOf(b, seed)
	if err != nil {
		return err
	}
	if one.Tokens, err = p.Divergence(m.cmd.Context(), build, base); err != nil {
		return err
	}
	one.Divergence = divergence.Summarize(one.Tokens)
	if one.OutputErrors, err = p.OutputErrors(m.cmd.Context(), build, base); err != nil {
		return err
	}
	r.Seeds = append(r.Seeds, one)
	haveFigures(m.cmd.Context())
	m.log.end("%s: compared along %s, attention seed %d", begin, free.Label, count(len(base.Tokens), "token"), seed)
	return nil
}

// measureControl compares exact attention with itself after the prompt was read
// in other chunks and its rows were shuffled: what rounding alone does. On the
// CPU chunks alone change nothing, since a row's sums do not depend on them.
func (m *measurement) measureControl(exact comparison.Trajectory) (*controlResult, error) {
	begin := time.Now()
	usual := min(m.Model.MaxRows(), len(m.ids))
	c := &controlResult{Chunk: usual*2/5 | 1, UsualChunk: usual}
	p, err := m.prefill(c.Chunk)
	if err != nil {
		return nil, err
	}
	defer p.Session.Close()
	build, err := m.builderOf(m.side("dense"), 0)
	if err != nil {
		return nil, err
	}
	if c.Tokens, err = p.Divergence(m.cmd.Context(), comparison.Shuffled(build, controlSeed), exact); err != nil {
		return nil, err
	}
	c.Divergence = divergence.Summarize(c.Tokens)
	m.log.end("control: read the prompt %d tokens at once, shuffled its rows", begin, c.Chunk)
	return c, nil
}

// controlSeed is that of the shuffled rows.
const controlSeed = 1

// side is the flags of one method, with teams of its own: the time to build
// them is the method's.
func (m *measurement) side(name string) attentionFlags {
	flags := m.as(name)
	flags.groups = groups{}
	return flags
}

// firstSeed is --attention-seed.
func (m *measurement) firstSeed() uint64 { return m.attentionFlags.seed }

// builderOf makes a method's backend with an attention seed.
func (m *measurement) builderOf(flags attentionFlags, seed uint64) (comparison.Build, error) {
	return flags.seeded(m.cmd.Context(), m.loaded, seed, m.log.bar.stage("building teams"))
}

// answer decodes freely.
func (m *measurement) answer(p comparison.Prompt, flags attentionFlags, seed uint64) (sideResult, error) {
	out := sideResult{Label: flags.label()}
	build, err := m.builderOf(flags, seed)
	if err != nil {
		return out, err
	}
	begin := time.Now()
	if err := p.Session.Build(build); err != nil {
		return out, err
	}
	out.BuildMS = milliseconds(time.Since(begin))
	limits, err := m.limits()
	if err != nil {
		return out, err
	}
	result, err := p.Session.Generate(m.cmd.Context(), limits, nil)
	if err != nil {
		return out, err
	}
	out.Text, out.TokenIDs, out.FinishReason, out.DecodeMS = result.Text, result.IDs(), result.Finish, milliseconds(result.Decode)
	out.Attention = flags.report(p.Session.Access(), seed)
	if len(m.Outputs) > 0 {
		score, err := eval.Score(result.Text, m.Row)
		right := score == 1
		out.Exact = &right
		return out, err
	}
	return out, nil
}

// printSpreads says, once, what the first method that groups keys groups.
func (m *measurement) printSpreads(p comparison.Prompt, sides ...attentionFlags) error {
	for _, flags := range sides {
		if flags.groupsKeys() {
			return flags.printSpread(m.cmd.ErrOrStderr(), m.loaded, p.Session)
		}
	}
	return nil
}

// logAnswer tells how long an answer took.
func (m *measurement) logAnswer(s sideResult) {
	m.log.bar.done()
	if m.as(s.Attention.Name).groupsKeys() {
		m.log.line("%s: built teams (%.2f s)", s.Label, s.BuildMS/1000)
	}
	m.log.line("%s: decoded %s (%.2f s)", s.Label, count(len(s.TokenIDs), "token"), s.DecodeMS/1000)
}

func (m *measurement) limits() (decode.Limits, error) {
	l, err := m.question.limits(m.opened)
	if m.ignoreEOS {
		l.EOS = nil
	}
	return l, err
}
