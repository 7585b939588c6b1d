package throwaway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ProcessorTime is the processor time that a process has had, by the scheduler's own
// count in nanoseconds. Threads that ended are not in it: neither Go nor the
// peers end theirs under load.
func ProcessorTime(pid int) (total time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		ran, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %q: %w", text, err)
		}
		total += time.Duration(ran)
	}
	if total == 0 {
		return 0, fmt.Errorf("read processor time: the system tells none of process %d", pid)
	}
	return total, nil
}

// ProcessorTime is that of the server's process.
func (s *Server) ProcessorTime() (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.container != "" {
		return 0, errors.New("no process of the server's is there")
	}
	return ProcessorTime(s.cmd.Process.Pid)
}
