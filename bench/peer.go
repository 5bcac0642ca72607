package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
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
	patience time.Duration
	stopped  func() error // the error of the context that it was started with
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

// NewPeer starts a command of the shell. Its stderr goes to log. It is killed, with
// all that it started, when an answer takes longer than patience, and when ctx ends.
// Close ends it.
func NewPeer(ctx context.Context, command string, log io.Writer, patience time.Duration) (*Peer, error) {
	p := &Peer{cmd: exec.CommandContext(ctx, "sh", "-c", command), patience: patience, stopped: ctx.Err}
	p.cmd.Stderr = log
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a shell's children would live on
	p.cmd.Cancel = p.kill
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
	err = p.answer(&hello)
	if err == nil && len(hello.Backends) == 0 {
		err = p.giveUp(errors.New("its first line names no backends"))
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("%w (%v)", err, p.cmd.ProcessState)
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

// kill ends the program and what it started.
func (p *Peer) kill() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// answer reads a line. A program that fails is ended.
func (p *Peer) answer(into any) error {
	late := time.AfterFunc(p.patience, func() { p.kill() })
	found := p.out.Scan()
	inTime := late.Stop()
	if !found {
		err := p.out.Err()
		switch {
		case p.stopped() != nil:
			err = p.stopped()
		case !inTime:
			err = fmt.Errorf("it gave no answer within %v and was ended", p.patience)
		case err == nil:
			err = errors.New("it ended without an answer")
		}
		return p.giveUp(err)
	}
	if err := json.Unmarshal(p.out.Bytes(), into); err != nil {
		return p.giveUp(fmt.Errorf("%.200q is not an answer: %w", p.out.Text(), err))
	}
	return nil
}

// giveUp ends a program that may go on for ever, and says why.
func (p *Peer) giveUp(why error) error {
	p.kill()
	return fmt.Errorf("peer: %w", why)
}

// Close ends the program by closing its input, or by force when it takes longer
// than an answer may.
func (p *Peer) Close() error {
	defer time.AfterFunc(p.patience, func() { p.kill() }).Stop()
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	return nil
}
