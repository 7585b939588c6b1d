package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profiled has Shunt's processor profile of a half's first seconds written to
// the directory of -profiles, from which `make pgo` makes default.pgo.
func (b *bench) profiled(ctx context.Context, name string, t target, measure func() (half, error)) (half, error) {
	if b.profiles == "" || t.http == "" {
		return measure()
	}
	failed := make(chan error, 1)
	go func() {
		file := filepath.Join(b.profiles, strings.ReplaceAll(name+"/"+t.name, "/", "-")+".pprof")
		failed <- t.writeProfile(ctx, b.seconds, file)
	}()
	h, err := measure()
	if err2 := <-failed; err == nil {
		err = err2
	}
	return h, err
}

func (t *target) writeProfile(ctx context.Context, seconds int, file string) error {
	resp, err := t.ask(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds))
	if err != nil {
		return fmt.Errorf("get profile: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("get profile: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get profile: %s: %s", resp.Status, text)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return os.WriteFile(file, text, 0o644)
}
