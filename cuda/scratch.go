package cuda

import "blitzen/cuda/driver"

// scratch is memory for intermediate results inside one operation. Operations
// follow each other on one stream, so all get the same block. It grows when one
// needs more; a block that recorded steps refer to lives on until Close.
type scratch struct {
	stream driver.Stream
	poison bool
	block  *buffer
	old    []*buffer
	held   int64 // bytes of all blocks
}

// take returns the scratch block, at least n bytes long. With keep a block that
// it replaces is not freed: a step under way refers to it.
func (s *scratch) take(n int, keep bool) (*buffer, error) {
	if s.block == nil || s.block.size < n {
		if err := s.grow(n, keep); err != nil {
			return nil, err
		}
	}
	if s.poison { // an operation that reads what it did not write shows
		return s.block, s.stream.Fill(s.block.at, 0xFF, n)
	}
	return s.block, nil
}

func (s *scratch) grow(n int, keep bool) error {
	const unit = 1 << 20
	n = (n + unit - 1) / unit * unit
	if s.block != nil && s.block.steps == 0 && !keep {
		b := s.block
		s.block = nil
		s.held -= int64(b.size)
		if err := driver.Free(b.at); err != nil {
			return err
		}
	}
	at, err := driver.Alloc(n)
	if err != nil {
		return err
	}
	if s.block != nil {
		s.old = append(s.old, s.block)
	}
	s.block = &buffer{at: at, size: n}
	s.held += int64(n)
	return nil
}

func (s *scratch) close() (err error) {
	blocks := s.old
	if s.block != nil {
		blocks = append(blocks, s.block)
	}
	for _, b := range blocks {
		if e := driver.Free(b.at); err == nil {
			err = e
		}
	}
	return err
}
