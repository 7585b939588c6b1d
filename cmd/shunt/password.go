package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/shunt-sql/shunt/proxy/wire"
)

type passwordCmd struct{}

func (passwordCmd) Help() string {
	return `Examples:

  shunt password < secret.txt
  pwgen 24 1 | tee secret.txt | shunt password`
}

// Run prints what a configuration can hold instead of a password.
func (passwordCmd) Run(s streams) error { return printHashes(os.Stdin, s.out) }

func printHashes(in io.Reader, out io.Writer) error {
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read password: %w", err)
	}
	password := strings.TrimRight(line, "\r\n")
	if password == "" {
		return errors.New("no password on standard input: expected one line, as in: shunt password < FILE")
	}
	_, err = fmt.Fprintf(out, "password_hash: [\"%s\"]\n", strings.Join(wire.PasswordCredential(password).Hashes(), `", "`))
	return err
}
