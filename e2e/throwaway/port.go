package throwaway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
)

var ports struct {
	sync.Mutex
	given map[int]bool
}

// FreePort is a loopback port that nobody listens on. It gives none twice, and
// none of those that the system gives to outgoing connections and to listeners
// without a wish, so that nobody takes it before its server has it.
func FreePort() (int, error) {
	const lowest = 10_000
	ephemeral := 32_768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		var first int
		if _, err := fmt.Sscan(string(text), &first); err == nil && first > lowest+1000 {
			ephemeral = first
		}
	}
	ports.Lock()
	defer ports.Unlock()
	if ports.given == nil {
		ports.given = map[int]bool{}
	}
	var failed error
	for range 1000 {
		port := lowest + rand.IntN(ephemeral-lowest)
		if ports.given[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			failed = err
			continue
		}
		l.Close()
		ports.given[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("find a free port: %w", errors.Join(errors.New("1000 tried"), failed))
}
