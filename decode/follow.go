package decode

import (
	"context"
	"errors"

	"blitzen/device"
)

// Follow decodes along given tokens, teacher-forced: step i sees ids[:i] after
// the prompt. each gets the step's logits, F32 [vocab], which are overwritten
// by the next; its error ends the walk. No step is queued ahead.
func (s *Session) Follow(ctx context.Context, ids []int32, each func(step int, logits []float32) error) error {
	if s.backend == nil {
		return errors.New("no attention backend has been built")
	}
	if err := s.Truncate(s.prompt); err != nil {
		return err
	}
	logits := make([]float32, s.t.logits.Len())
	for i, id := range ids {
		if _, err := s.next(ctx, 1); err != nil {
			return err
		}
		if err := device.Collect(s.dev.Fetch(s.t.logits), logits); err != nil {
			return err
		}
		if err := s.Force(id); err != nil {
			return err
		}
		if err := each(i, logits); err != nil {
			return err
		}
	}
	return nil
}
