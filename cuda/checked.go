package cuda

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"blitzen/cuda/driver"
)

// A change of the instrumenter makes checked programs anew.
//
//go:embed instrument.go
var instrumenterText string

// checkedSource has a program compiled to PTX with the function that checks and
// the lines of its source.
func (t target) checkedSource(s driver.Source) driver.Source {
	for _, name := range []string{"bounds.cuh", "common.cuh"} {
		s.Headers[name] = t.headers[name]
	}
	s.Headers["instrument.go"] = instrumenterText // for the cache; nothing includes it
	s.Options = slices.DeleteFunc(slices.Clone(s.Options), func(o string) bool { return strings.HasPrefix(o, "--ptxas-options") })
	for i, o := range s.Options {
		s.Options[i] = strings.Replace(o, "=sm_", "=compute_", 1)
	}
	s.Options = append(s.Options, "--pre-include=bounds.cuh")
	return s
}

// ownArray begins a line of a checked program's log that names an array of its
// own; the other lines are its sites.
const ownArray = "array "

// compileChecked makes PTX, which the driver assembles when it is loaded, and a
// log of what it checks.
func compileChecked(s driver.Source) (image []byte, log string, err error) {
	if image, log, err = driver.Compile(s); err != nil {
		return nil, log, err
	}
	in, err := instrument(string(image))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", s.Name, err)
	}
	var lines []string
	for _, name := range in.globals {
		lines = append(lines, ownArray+name)
	}
	return []byte(in.text), strings.Join(append(lines, in.sites...), "\n"), nil
}

// check prepares a loaded program for checks.
func (m *module) check(log string, b *bounds) error {
	for line := range strings.SplitSeq(log, "\n") {
		name, array := strings.CutPrefix(line, ownArray)
		if !array {
			m.sites = append(m.sites, line)
			continue
		}
		at, size, err := m.code.Global(name)
		if err != nil {
			return err
		}
		m.own = append(m.own, region{uint64(at), uint64(at) + uint64(size), name})
		if name == "bounds" {
			if err := b.gpu.sendAll(at, bytesOf([]driver.Address{b.memory})); err != nil {
				return err
			}
		}
	}
	if len(m.own) == 0 {
		return errors.New("a checked program has nothing that checks")
	}
	return nil
}
