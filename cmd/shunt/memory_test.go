package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestContainerMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no Linux": {nil, math.MaxInt64},
		"version 2": {map[string]string{
			"proc/self/cgroup":                    "0::/pod/shunt\n",
			"sys/fs/cgroup/pod/shunt/memory.max":  "max\n",
			"sys/fs/cgroup/pod/memory.max":        "268435456\n",
			"sys/fs/cgroup/other/memory.max":      "1\n",
			"sys/fs/cgroup/memory/pod/memory.max": "1\n",
		}, 256 << 20},
		"version 2, a namespace of its own": {map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n",
		}, 1 << 30},
		"version 2, no limit": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, math.MaxInt64},
		"version 1": {map[string]string{
			"proc/self/cgroup": "5:cpu,cpuacct:/a\n4:memory:/a\n1:name=systemd:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "268435456\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, 256 << 20},
		"version 1, the path of outside": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/docker/4711\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "268435456\n",
		}, 256 << 20},
		"version 1, no limit": {map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				at := filepath.Join(root, file)
				if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := containerMemory(root); got != c.want {
				t.Errorf("containerMemory = %d, want %d", got, c.want)
			}
		})
	}
}
