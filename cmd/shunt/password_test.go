package main

import (
	"strings"
	"testing"

	"github.com/shunt-sql/shunt/cmd/shunt/config"
)

func TestPrintHashes(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := printHashes(strings.NewReader("se:cret \n"), &out); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("f", []byte("users:\n- name: a\n  "+out.String()+"shards: [{name: s0, addr: h:1, user: u}]\n"), func(string) (string, bool) { return "", false })
	if err != nil || !c.Users[0].Credential.Is("se:cret ") {
		t.Errorf("%s: %v", out.String(), err)
	}
	if err := printHashes(strings.NewReader(""), &out); err == nil {
		t.Error("no password has hashes")
	}
}
