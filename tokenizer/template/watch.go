package template

import (
	"fmt"
	"runtime/metrics"
	"time"
)

// limits end a rendering that the guard's counts do not: one function of the engine may work for long on what the guard
// lets pass. Published templates take milliseconds.
type limits struct {
	time  time.Duration
	bytes uint64 // of memory, more than before
}

// usual limits leave room for messages of so many bytes.
func usual(messages int) limits {
	return limits{time: 30 * time.Second, bytes: 1<<30 + 32*uint64(messages)}
}

// watch returns what f returns, or an error when it breaks a limit. Then f is still at work, until it looks at done.
func watch(l limits, f func(done <-chan struct{}) (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done, results := make(chan struct{}), make(chan result, 1)
	defer close(done)
	begin, most := time.Now(), measured("/gc/heap/live:bytes")+l.bytes
	go func() {
		text, err := f(done)
		results <- result{text, err}
	}()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case r := <-results:
			return r.text, r.err
		case <-look.C:
		}
		if time.Since(begin) > l.time {
			return "", fmt.Errorf("it takes more than %v", l.time)
		}
		if measured("/memory/classes/heap/objects:bytes") > most { // what the next collection frees included
			return "", fmt.Errorf("it needs more than %d bytes of memory", l.bytes)
		}
	}
}

func measured(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
