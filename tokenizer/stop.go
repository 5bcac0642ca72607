package tokenizer

import (
	"errors"
	"slices"
	"strings"
)

// StopFilter cuts streamed text at the first of several stop strings. It holds back the longest end of the text that
// could still become one, so no part of a stop string leaks, wherever the stream splits it.
type StopFilter struct {
	stops []string
	held  string
	stop  string
}

// NewStopFilter makes a filter; without stops it passes everything.
func NewStopFilter(stops ...string) (*StopFilter, error) {
	if slices.Contains(stops, "") {
		return nil, errors.New("a stop string is empty: it would stop before the first character")
	}
	return &StopFilter{stops: slices.Clone(stops)}, nil
}

// Write takes the next part of the text and returns what may be shown. stopped becomes true at the stop string that
// ends first (the longest of those that end there); the text before it has then been returned, and later parts give "".
func (f *StopFilter) Write(part string) (text string, stopped bool) {
	if f.stop != "" {
		return "", true
	}
	f.held += part
	if start, stop := firstStop(f.held, f.stops); stop != "" {
		text, f.held, f.stop = f.held[:start], "", stop
		return text, true
	}
	keep := 0
	for _, stop := range f.stops {
		keep = max(keep, overlap(f.held, stop))
	}
	text, f.held = f.held[:len(f.held)-keep], f.held[len(f.held)-keep:]
	return text, false
}

// Flush returns what is held back, at the end of the text.
func (f *StopFilter) Flush() string {
	text := f.held
	f.held = ""
	return text
}

// Stop is the stop string that was found, or "".
func (f *StopFilter) Stop() string { return f.stop }

// firstStop finds the stop string whose first occurrence ends first; of several that end there, the longest.
func firstStop(text string, stops []string) (start int, found string) {
	for _, stop := range stops {
		at := strings.Index(text, stop)
		if at < 0 {
			continue
		}
		if end, best := at+len(stop), start+len(found); found == "" || end < best || end == best && at < start {
			start, found = at, stop
		}
	}
	return start, found
}

// overlap is the length of the longest proper prefix of stop that text ends with.
func overlap(text, stop string) int {
	for n := min(len(stop)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, stop[:n]) {
			return n
		}
	}
	return 0
}
