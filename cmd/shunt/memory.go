package main

import (
	"bufio"
	"log/slog"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory has the garbage collector keep the process below what its container may use,
// unless GOMEMLIMIT says otherwise: without, the heap grows to twice what is in use before
// anything is collected, and the kernel ends who is over the limit. An eighth is left for what
// the collector doesn't know of: the store's tables, stacks of threads, the program.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if most := containerMemory("/"); most < math.MaxInt64 {
		limit := most - most/8
		debug.SetMemoryLimit(limit)
		log.Info("memory is limited by the container", "container_bytes", most, "limit_bytes", limit)
	}
}

// containerMemory is the lowest limit of the process's control group and those above it, of
// version 1 or 2; MaxInt64 for none. root is where proc and sys are.
func containerMemory(root string) int64 {
	lowest := int64(math.MaxInt64)
	groups, err := os.Open(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return lowest // no Linux
	}
	defer groups.Close()
	for lines := bufio.NewScanner(groups); lines.Scan(); {
		// 4:memory:/path, or 0::/path in version 2
		f := strings.SplitN(lines.Text(), ":", 3)
		if len(f) != 3 {
			continue
		}
		var base, file string
		switch {
		case f[1] == "":
			base, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+f[1]+",", ",memory,"):
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// Inside a container the path may be the one outside of it, and only the top be there.
		for at := path.Clean("/" + f[2]); ; at = path.Dir(at) {
			if b, err := os.ReadFile(filepath.Join(root, base, at, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && n < noLimit {
					lowest = min(lowest, n)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return lowest
}

// noLimit and more is how version 1 says that there is no limit.
const noLimit = 1 << 62
