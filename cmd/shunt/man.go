package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// exitStatus is what the manual says of all commands; --help of the program too.
const exitStatus = `Exit status:
  0  done
  1  what was asked has failed, and standard error says why
  2  the command line is wrong`

type manCmd struct{}

func (manCmd) Help() string {
	return `Examples:

  shunt man > /usr/local/share/man/man1/shunt.1`
}

// Run prints the manual: all that --help says of each command.
func (manCmd) Run(k *kong.Context, s streams) error {
	_, err := io.WriteString(s.out, manual(commandsOf(k.Model.Node, "")))
	return err
}

// manual is a page of man(7), of the commands but for their first, the program.
func manual(commands []command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH SHUNT 1 \"\" %s \"Shunt\"\n.SH NAME\nshunt \\- a MySQL proxy for sharded databases, with virtual indexes\n", roff(`"`+version+`"`))
	b.WriteString(".SH SYNOPSIS\n.B shunt\n.I command\n.RI [ flags ]\n.SH COMMANDS\n")
	for _, c := range commands[1:] {
		fmt.Fprintf(&b, ".SS %s\n%s\n", roff("shunt "+c.path+c.usage), roff(c.help))
		for _, f := range c.args {
			fmt.Fprintf(&b, ".TP\n.I %s\n%s\n", roff(f.name), roff(f.help))
		}
		for _, f := range c.flags {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(f.usage), roff(f.help))
		}
		if c.detail != "" {
			fmt.Fprintf(&b, ".PP\n%s\n", preformatted(c.detail, ".PP\n", ".RS\n.nf\n", ".fi\n.RE\n", roff))
		}
	}
	fmt.Fprintf(&b, ".SH EXIT STATUS\n%s", preformatted(strings.Join(strings.Split(exitStatus, "\n")[1:], "\n"), ".PP\n", ".nf\n", ".fi\n", roff))
	b.WriteString(".SH SEE ALSO\n.BR mysql (1),\n.I /usr/share/doc/shunt\n")
	return b.String()
}

// commandLine is docs/command-line.md.
func commandLine(commands []command) string {
	plain := func(s string) string { return s }
	var b strings.Builder
	b.WriteString("# Command line\n\nWritten by `go test ./cmd/shunt -run CommandLine -rewrite` from what `--help` says: don't edit. `shunt man` prints the same for `man`, and [`shunt completion`](#shunt-completion) completes it.\n\n")
	b.WriteString("The exit status is 0 where what was asked is done, 1 where it has failed and standard error says why, and 2 where the command line is wrong.\n")
	for _, c := range commands[1:] {
		fmt.Fprintf(&b, "\n## shunt %s\n\n%s\n", c.path, c.help)
		if c.usage != "" {
			fmt.Fprintf(&b, "\n`shunt %s%s`\n", c.path, c.usage)
		}
		if len(c.args)+len(c.flags) > 0 {
			b.WriteString("\n| | |\n| --- | --- |\n")
		}
		for _, f := range append(c.args, c.flags...) {
			fmt.Fprintf(&b, "| `%s` | %s |\n", f.usage, f.help)
		}
		if c.detail != "" {
			b.WriteString("\n" + preformatted(c.detail, "\n", "```sh\n", "```\n", plain))
		}
	}
	return b.String()
}

// preformatted writes a text whose indented lines, but for the indent, are to stay as they are: between open and
// end. Others are written by escape; between paragraphs stands a break.
func preformatted(text, paragraph, open, end string, escape func(string) string) string {
	var b strings.Builder
	within := false
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimSuffix(line, "\n")
		code, indented := strings.CutPrefix(line, "  ")
		if indented != within {
			if within = indented; indented {
				b.WriteString(open)
			} else {
				b.WriteString(end)
			}
		}
		switch {
		case line == "":
			if !within {
				b.WriteString(paragraph)
			}
		case indented:
			b.WriteString(escape(code) + "\n")
		default:
			b.WriteString(escape(line) + "\n")
		}
	}
	if within {
		b.WriteString(end)
	}
	return b.String()
}

// roff escapes a line for man(7).
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	return line
}
