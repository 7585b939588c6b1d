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
		failed <- writeProfile(ctx, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", t.http, b.seconds), file)
	}()
	h, err := measure()
	if err2 := <-failed; err == nil {
		err = err2
	}
	return h, err
}

func writeProfile(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
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
