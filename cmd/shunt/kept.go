package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// readKept reads what keep has kept: an empty map without a file.
func readKept[V any](path string) (map[string]V, error) {
	kept := map[string]V{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, err
	}
	if kept == nil {
		return nil, errors.New("it holds null")
	}
	return kept, nil
}

// keep keeps a value as JSON. Survives a power loss.
func keep(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(path, string(text)+"\n")
}

// writeSynced makes a file that is there as a whole or not at all.
func writeSynced(path, text string) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
