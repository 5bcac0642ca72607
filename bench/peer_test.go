package bench_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"blitzen/bench"
)

const hello = `echo '{"peer": "Other 1", "backends": ["a", "b"]}'; `

func TestPeer(t *testing.T) {
	var log bytes.Buffer
	p, err := bench.NewPeer(t.Context(), hello+`read line; echo "$line" >&2; echo '{"us": [1.5, 2]}'; read line; echo '{"error": "too wide"}'; cat >/dev/null`, &log, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "Other 1" || strings.Join(p.Backends, " ") != "a b" {
		t.Errorf("peer %s, %v", p.Name, p.Backends)
	}
	r := bench.Request{Backend: "a", Mode: "graph", DType: "bf16", Heads: 28, KeyHeads: 4, KeyDim: 128, ValueDim: 128, Rows: 70, Warm: 1, Observations: 2}
	laps, err := p.Ask(r)
	if err != nil || len(laps) != 2 || laps[0] != 1500*time.Nanosecond || laps[1] != 2*time.Microsecond {
		t.Errorf("laps %v, %v", laps, err)
	}
	if _, err := p.Ask(r); !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "a of Other 1: not supported: too wide") {
		t.Errorf("error %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	const want = `{"backend":"a","mode":"graph","dtype":"bf16","heads":28,"key_heads":4,"key_dim":128,"value_dim":128,"rows":70,"warm":1,"observations":2}` + "\n"
	if log.String() != want {
		t.Errorf("asked %s\nwant  %s", log.String(), want)
	}
}

// A program that ends, or says something else, is an error that says so.
func TestPeerRefused(t *testing.T) {
	for command, want := range map[string]string{
		"exit 3":                    "peer: it ended without an answer (exit status 3)",
		"echo hello; cat":           `peer: "hello" is not an answer`,
		"yes":                       `peer: "y" is not an answer`,
		hello + "yes":               `peer: "y" is not an answer`,
		"echo '{}'":                 "peer: its first line names no backends",
		"no-such-program-anywhere":  "peer: it ended without an answer",
		hello + "read line; exit 0": "peer: it ended without an answer",
	} {
		p, err := bench.NewPeer(t.Context(), command, &bytes.Buffer{}, time.Minute)
		if err == nil {
			_, err = p.Ask(bench.Request{})
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", command, err, want)
		}
	}
}

// A program that says nothing, at first or later, or does not end, is ended with
// all that it started.
func TestPeerSilent(t *testing.T) {
	for _, command := range []string{"sleep 10000", "sleep 10000 & sleep 10000", hello + "sleep 10000", "trap '' TERM INT; " + hello + "sleep 10000; sleep 10000"} {
		p, err := bench.NewPeer(t.Context(), command, &bytes.Buffer{}, 300*time.Millisecond)
		if err == nil {
			_, err = p.Ask(bench.Request{})
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "peer: it gave no answer within 300ms and was ended") {
			t.Errorf("%s: error %v", command, err)
		}
	}
	p, err := bench.NewPeer(t.Context(), hello+"sleep 10000", &bytes.Buffer{}, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err == nil {
		t.Error("a program that was ended by force is no error")
	}
}

// A peer that is waited for when the user has enough is ended, and the error is
// that of the context.
func TestPeerInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := bench.NewPeer(ctx, hello+"sleep 10000", &bytes.Buffer{}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := p.Ask(bench.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	p.Close()
}
