package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// Peer is another program that times attention on the same device, asked line
// by line in JSON:
//
//	→ {"backend": "flash", "mode": "graph", "heads": 28, …}
//	← {"us": [36.1, 36.0]} or {"error": "…"}
//
// Its first line tells what it is: {"peer": "PyTorch 2.11", "backends": ["flash"]}.
type Peer struct {
	Name     string
	Backends []string
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Scanner
}

// Request is what a peer is asked for: dense attention of one query token.
type Request struct {
	Backend      string `json:"backend"`
	Mode         string `json:"mode"` // "graph": inside a row of layers; "events": one by one, evicted
	DType        string `json:"dtype"`
	Heads        int    `json:"heads"`
	KeyHeads     int    `json:"key_heads"`
	KeyDim       int    `json:"key_dim"`
	ValueDim     int    `json:"value_dim"`
	Rows         int    `json:"rows"`
	Warm         int    `json:"warm"`
	Observations int    `json:"observations"`
}

// NewPeer starts a command of the shell. Its stderr goes to log. Close ends it.
func NewPeer(ctx context.Context, command string, log io.Writer) (*Peer, error) {
	p := &Peer{cmd: exec.CommandContext(ctx, "sh", "-c", command)}
	p.cmd.Stderr = log
	p.cmd.WaitDelay = time.Second
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 64<<20)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	var hello struct {
		Peer     string
		Backends []string
	}
	if err := p.answer(&hello); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Name, p.Backends = hello.Peer, hello.Backends
	return p, nil
}

// ErrUnsupported says that a peer cannot do what it is asked for.
var ErrUnsupported = errors.New("not supported")

// Ask has the peer measure. An error that wraps ErrUnsupported is about this
// request alone.
func (p *Peer) Ask(r Request) ([]time.Duration, error) {
	if err := json.NewEncoder(p.in).Encode(r); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	var answer struct {
		US    []float64
		Error string
	}
	if err := p.answer(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" || len(answer.US) == 0 {
		return nil, fmt.Errorf("%s of %s: %w: %s", r.Backend, p.Name, ErrUnsupported, answer.Error)
	}
	laps := make([]time.Duration, len(answer.US))
	for i, us := range answer.US {
		laps[i] = time.Duration(us * float64(time.Microsecond))
	}
	return laps, nil
}

func (p *Peer) answer(into any) error {
	if !p.out.Scan() {
		err := p.out.Err()
		if err == nil {
			err = errors.New("it ended without an answer")
		}
		return fmt.Errorf("peer: %w", err)
	}
	if err := json.Unmarshal(p.out.Bytes(), into); err != nil {
		return fmt.Errorf("peer: %q is not an answer: %w", p.out.Text(), err)
	}
	return nil
}

// Close ends the program by closing its input.
func (p *Peer) Close() error {
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	return nil
}
