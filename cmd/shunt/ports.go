package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

// listen opens the ports for clients.
func listen(ctx context.Context, cfg *config.Config) (listeners []net.Listener, err error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for clients (listen: %s): %w", cfg.Listen, err)
	}
	listeners = append(listeners, l)
	if cfg.Socket != "" {
		socket, err := listenSocket(ctx, cfg.Socket)
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("listen for clients (socket: %s): %w", cfg.Socket, err)
		}
		listeners = append(listeners, socket)
	}
	return listeners, nil
}

// listenHTTP opens the port of metrics and the console, nil where it is off.
func listenHTTP(cfg *config.Config) (net.Listener, error) {
	if cfg.HTTP == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", cfg.HTTP)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP (http: %s): %w", cfg.HTTP, err)
	}
	return l, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// listenSocket listens on a Unix socket, as the server of the file that a dead
// process may have left there.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "unix", path); err == nil {
			conn.Close()
			return nil, errors.New("another process is listening there")
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Who may connect is for passwords to say, as with MySQL's socket.
	if err := os.Chmod(path, 0o777); err != nil { //nolint:gosec // see above
		l.Close()
		return nil, err
	}
	return l, nil
}
