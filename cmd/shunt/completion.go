package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `Examples:

  source <(shunt completion bash)                  # in ~/.bashrc
  source <(shunt completion zsh)                   # in ~/.zshrc, behind compinit
  shunt completion fish > ~/.config/fish/completions/shunt.fish`
}

// Run prints a script by which a shell completes the commands and their flags.
func (c *completionCmd) Run(k *kong.Context, s streams) error {
	commands := commandsOf(k.Model.Node, "")
	switch c.Shell {
	case "zsh":
		// zsh reads bash's completions.
		if _, err := io.WriteString(s.out, "autoload -U +X bashcompinit && bashcompinit\n"); err != nil {
			return err
		}
		fallthrough
	case "bash":
		return completeBash(s.out, commands)
	}
	return completeFish(s.out, commands)
}

// command is one of the command line; its path is "index list", "" for the program itself.
type command struct {
	path, help string
	// usage is what follows the path, detail what --help says besides: examples, mostly.
	usage, detail     string
	words             []string // commands below it, flags, values of an argument
	args, flags, subs []option
}

// option is an argument, a flag or a command; usage is how it is written.
type option struct{ name, usage, help string }

func commandsOf(n *kong.Node, path string) (list []command) {
	c := command{path: path, help: n.Help, detail: n.Detail}
	for _, sub := range n.Children {
		if !sub.Hidden {
			c.words = append(c.words, sub.Name)
			c.subs = append(c.subs, option{sub.Name, sub.Name, sub.Help})
		}
	}
	for _, arg := range n.Positional {
		c.usage += " " + arg.Summary()
		c.args = append(c.args, option{arg.Name, arg.Summary(), helpOf(arg)})
		if arg.Enum != "" {
			c.words = append(c.words, strings.Split(arg.Enum, ",")...)
		}
	}
	for _, f := range n.Flags {
		if !f.Hidden {
			c.words = append(c.words, "--"+f.Name)
			if f.Name != "help" && path != "" {
				c.usage += usageOf(f)
			}
			c.flags = append(c.flags, option{f.Name, f.String(), helpOf(f.Value)})
		}
	}
	if path != "" {
		c.words = append(c.words, "--help")
	}
	list = append(list, c)
	for _, sub := range n.Children {
		if !sub.Hidden {
			list = append(list, commandsOf(sub, strings.TrimSpace(path+" "+sub.Name))...)
		}
	}
	return list
}

// usageOf is how a flag stands in a command's usage.
func usageOf(f *kong.Flag) string {
	if f.Required {
		return " " + f.Summary()
	}
	return ""
}

// helpOf is the help of a flag or an argument, with where else it may come from.
func helpOf(v *kong.Value) string {
	help := v.Help
	if v.Tag != nil && len(v.Tag.Envs) > 0 {
		help = fmt.Sprintf("%s Or by $%s.", help, strings.Join(v.Tag.Envs, ", $"))
	}
	return help
}

// completeBash has a case for each command: the longest path that the words before begin with.
func completeBash(out io.Writer, commands []command) error {
	var b strings.Builder
	b.WriteString(`# shunt's commands and flags, for bash
_shunt() {
  local path="" word words=""
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$path $word" in
`)
	var paths []string
	for _, c := range commands[1:] {
		paths = append(paths, fmt.Sprintf("%q", " "+c.path))
	}
	fmt.Fprintf(&b, "      %s) path=\"$path $word\" ;;\n    esac\n  done\n  case \"$path\" in\n", strings.Join(paths, "|"))
	for _, c := range commands {
		path := c.path
		if path != "" {
			path = " " + path
		}
		fmt.Fprintf(&b, "    %q) words=%q ;;\n", path, strings.Join(c.words, " "))
	}
	b.WriteString(`  esac
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _shunt shunt
`)
	_, err := io.WriteString(out, b.String())
	return err
}

func completeFish(out io.Writer, commands []command) error {
	quoted := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	var b strings.Builder
	b.WriteString("# shunt's commands and flags, for fish\n")
	for _, c := range commands {
		when := "__fish_use_subcommand"
		if c.path != "" {
			when = "__fish_seen_subcommand_from " + strings.Join(strings.Fields(c.path), "; and __fish_seen_subcommand_from ")
		}
		for _, s := range c.subs {
			fmt.Fprintf(&b, "complete -c shunt -f -n %s -a %s -d %s\n", quoted(when), s.name, quoted(s.help))
		}
		for _, f := range c.flags {
			fmt.Fprintf(&b, "complete -c shunt -n %s -l %s -d %s\n", quoted(when), f.name, quoted(f.help))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
