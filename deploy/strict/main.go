// Command strict reads what deploy has for Kubernetes and for Docker Compose by the libraries of these, which refuse
// what they don't know:
//
//	go run . kubernetes < objects.yaml
//	go run . compose ../compose.yaml
//
// It is a module of its own, for tests alone: Shunt has nothing of these libraries.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "kubernetes":
		return kubernetes(os.Stdin)
	case len(args) == 2 && args[0] == "compose":
		return compose(args[1])
	}
	return errors.New("usage: strict kubernetes < FILE, or strict compose FILE")
}

// kubernetes reads objects, each of a kind that the chart may have.
func kubernetes(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for one := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---")) {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(one, &kind); err != nil {
			return fmt.Errorf("%w\n%s", err, one)
		}
		var object any
		switch name := kind.APIVersion + " " + kind.Kind; name {
		case " ":
			continue // a comment alone
		case "apps/v1 StatefulSet":
			object = &apps.StatefulSet{}
		case "policy/v1 PodDisruptionBudget":
			object = &policy.PodDisruptionBudget{}
		case "v1 Secret":
			object = &core.Secret{}
		case "v1 Service":
			object = &core.Service{}
		default:
			return fmt.Errorf("no object of the chart's: %q", name)
		}
		if err := yaml.UnmarshalStrict(one, object); err != nil {
			return fmt.Errorf("%s: %w\n%s", kind.Kind, err, one)
		}
	}
	return nil
}

// compose reads a file as `docker compose` does, and looks for what it mounts and builds.
func compose(file string) error {
	options, err := cli.NewProjectOptions([]string{file})
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	for name, service := range project.Services {
		var paths []string
		for _, v := range service.Volumes {
			if v.Type == "bind" {
				paths = append(paths, v.Source)
			}
		}
		if service.Build != nil {
			paths = append(paths, service.Build.Context+"/Dockerfile")
		}
		for _, path := range paths {
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}
