package template

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ardanlabs/jinja"
)

// What is at work for too long, or holds too much, is not waited for.
func TestWatch(t *testing.T) {
	roomy := limits{time: time.Hour, bytes: 1 << 40}
	if text, err := watch(roomy, func(<-chan struct{}) (string, error) { return "a", nil }); text != "a" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	own := errors.New("own")
	if _, err := watch(roomy, func(<-chan struct{}) (string, error) { return "", own }); err != own {
		t.Error(err)
	}
	told := make(chan bool)
	_, err := watch(limits{time: time.Millisecond, bytes: 1 << 40}, func(done <-chan struct{}) (string, error) {
		<-done
		close(told)
		return "late", nil
	})
	if err == nil || !strings.Contains(err.Error(), "takes more than 1ms") {
		t.Error(err)
	}
	<-told
	runtime.GC() // the limit is counted from what the last collection left
	_, err = watch(limits{time: time.Hour, bytes: 64 << 20}, func(done <-chan struct{}) (string, error) {
		held := make([]byte, 256<<20)
		<-done
		return string(held[:1]), nil
	})
	if err == nil || !strings.Contains(err.Error(), "needs more than 67108864 bytes") {
		t.Error(err)
	}
}

// Templates that do little in many ways, or much in one, come to an end.
func TestHostileTemplatesEnd(t *testing.T) {
	const grown = "{% set x = 'a' * 999 %}{% set x = x * 999 %}" // about 1 MB
	for template, l := range map[string]limits{
		grown + "{% for i in range(1000000) %}{% if x | upper == 'A' %}{% endif %}{% endfor %}": {time: 50 * time.Millisecond, bytes: 1 << 40},
		grown + "{{ [" + strings.Repeat("x,", 1000) + "] ~ '' }}":                               {time: time.Hour, bytes: 128 << 20},
		grown + "{{ x * 999 }}": {time: time.Hour, bytes: 128 << 20},
	} {
		runtime.GC()
		_, err := render(template, map[string]jinja.Value{}, l)
		if err == nil || !strings.Contains(err.Error(), "more than 50ms") && !strings.Contains(err.Error(), "a value is larger than") {
			t.Errorf("%.80q: %v", template, err)
		}
	}
}
