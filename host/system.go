package host

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Space implements device.Device: what the system can give without swapping,
// and no more than a container's limit.
func (d *cpu) Space() (free, total int64) {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	free, total = statistic(info, "MemAvailable:")<<10, statistic(info, "MemTotal:")<<10
	// The limit of a control group, version 2; files that it has cached give way.
	if limit := cgroup("memory.max"); limit > 0 {
		stat, _ := os.ReadFile("/sys/fs/cgroup/memory.stat")
		used := cgroup("memory.current") - statistic(stat, "inactive_file ")
		free, total = min(free, max(limit-used, 0)), min(total, limit)
	}
	return free, total
}

// statistic is the number after a name in a file of statistics; 0 if it is not
// there.
func statistic(stats []byte, name string) int64 {
	_, rest, _ := bytes.Cut(stats, []byte(name))
	words := strings.Fields(string(rest[:min(len(rest), 64)]))
	if len(words) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// cgroup is a number of the process's control group, 0 if there is none.
func cgroup(file string) int64 {
	text, err := os.ReadFile("/sys/fs/cgroup/" + file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil { // "max"
		return 0
	}
	return n
}
