package decode

import (
	"context"
	"errors"
	"fmt"

	"blitzen/attention"
	"blitzen/attention/record"
	"blitzen/device"
	"blitzen/model"
)

// Prefill reads the prompt with exact attention, in chunks of
// Options.Chunk, and freezes its rows. progress, if not nil, is told the rows
// done after each chunk. Called again it reads more of the prompt: what has been
// decoded is forgotten, and a backend must be built anew.
func (s *Session) Prefill(ctx context.Context, ids []int32, progress func(done, of int)) error {
	if err := s.checkPrompt(ids); err != nil {
		return err
	}
	s.drop()
	if err := s.cache.Thaw(); err != nil {
		return err
	}
	if err := s.prepare(len(ids)); err != nil {
		return err
	}
	probes := min(s.opts.Probes, len(ids))
	if probes > 0 {
		s.cache.HoldQueries(probes)
	}
	for done := 0; done < len(ids); {
		n, at := min(s.chunkRows(), len(ids)-done), s.prompt+done
		if first := len(ids) - probes; done < first {
			n = min(n, first-done) // the others may be read in a faster way
		}
		attn := s.reader(done, n, len(ids)-probes)
		if err := s.chunk(ids[done:done+n], at, stoppable{attn, ctx}); err != nil {
			return fmt.Errorf("prefill at token %d: %w", at, err)
		}
		done += n
		if err := s.settle(); err != nil {
			return fmt.Errorf("prefill at token %d: %w", at+n, err)
		}
		if progress != nil {
			progress(done, len(ids))
		}
	}
	if err := s.cache.Freeze(s.prompt + len(ids)); err != nil {
		return err
	}
	s.tokens = append(s.tokens[:s.prompt], ids...)
	s.prompt = len(s.tokens)
	return nil
}

// reader is exact attention for n prompt tokens from start on, none or all of
// them from first on, which keeps the queries of the latter.
func (s *Session) reader(start, n, first int) attention.Backend {
	if start+n <= first {
		return s.prefill
	}
	return record.NewQueries(s.prefill, s.cache, start-first)
}

// stoppable is exact attention that ends a prefill between layers when ctx
// ends.
type stoppable struct {
	attention.Backend
	ctx context.Context
}

func (s stoppable) Attend(ops *device.Ops, in attention.Input) {
	if err := s.ctx.Err(); err != nil {
		ops.Fail(err)
		return
	}
	s.Backend.Attend(ops, in)
}

// settle waits until the device has done all that was queued, so that progress
// and times are true.
func (s *Session) settle() error {
	_, err := device.Read[int32](s.dev, s.t.pos)
	return err
}

func (s *Session) checkPrompt(ids []int32) error {
	switch {
	case len(ids) == 0:
		return errors.New("the prompt is empty: give at least one token")
	case s.prompt+len(ids) > s.opts.Capacity:
		return fmt.Errorf("the prompt has %d tokens, the context %d: %w", s.prompt+len(ids), s.opts.Capacity, ErrFull)
	}
	vocab := s.model.Config().Vocab
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("prompt token %d has id %d, the vocabulary ids 0 to %d", i, id, vocab-1)
		}
	}
	return nil
}

// prepare has the device make ready what a prompt of n tokens and the steps
// after it need. Steps of another backend may need more.
func (s *Session) prepare(n int) error {
	rows := s.chunkRows()
	return s.dev.Prepare(func(ops *device.Ops) {
		for _, size := range []int{min(rows, n), n % rows} {
			if size > 0 {
				s.model.Forward(ops, s.batch(size, s.prompt+n), s.cache, s.prefill, nil)
			}
		}
		s.issue(ops, s.prefill, most(s.prompt+n))
	})
}

// chunkRows is the most prompt tokens read at once.
func (s *Session) chunkRows() int {
	if s.opts.Chunk > 0 {
		return min(s.opts.Chunk, s.model.MaxRows())
	}
	return s.model.MaxRows()
}

// batch is the tensors of a prefill chunk of n tokens, which makes the cache
// rows long.
func (s *Session) batch(n, rows int) model.Batch {
	return model.Batch{IDs: s.t.ids.Slice(0, 0, n), Pos: s.t.at.Slice(0, 0, n), Rows: rows}
}

// chunk feeds tokens at consecutive positions through exact attention.
func (s *Session) chunk(ids []int32, start int, attn attention.Backend) error {
	at := make([]int32, len(ids))
	for i := range at {
		at[i] = int32(start + i)
	}
	in := s.batch(len(ids), start+len(ids))
	if err := device.Write(s.dev, in.IDs, ids); err != nil {
		return err
	}
	if err := device.Write(s.dev, in.Pos, at); err != nil {
		return err
	}
	return s.dev.Run(func(ops *device.Ops) { s.model.Forward(ops, in, s.cache, attn, nil) })
}
