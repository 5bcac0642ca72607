package host

import "testing"

func TestStatistic(t *testing.T) {
	info := []byte("MemTotal:       24642124 kB\nMemFree:         1000 kB\nMemAvailable:   19000000 kB\nHugePages_Total:       0\nBroken: x kB\n")
	for name, want := range map[string]int64{"MemTotal:": 24642124, "MemAvailable:": 19000000, "HugePages_Total:": 0, "Broken:": 0, "None:": 0} {
		if got := statistic(info, name); got != want {
			t.Errorf("%s %d, want %d", name, got, want)
		}
	}
}

func TestSpace(t *testing.T) {
	d := open(t, Options{Threads: 1})
	if free, total := d.Space(); free <= 0 || total < free {
		t.Errorf("%d of %d bytes are free", free, total)
	}
}
