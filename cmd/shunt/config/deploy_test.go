package config

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const deploy = "../../../deploy/"

// deployed reads a file of deploy's.
func deployed(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(deploy + name)
	if err == nil {
		err = yaml.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestDeployedConfigurations: those that come with Shunt are right.
func TestDeployedConfigurations(t *testing.T) {
	t.Setenv("APP_PASSWORD", "a")
	t.Setenv("SHARD_PASSWORD", "b")
	var chart struct {
		Config   map[string]any
		Replicas int
	}
	deployed(t, "helm/shunt/values.yaml", &chart)
	b, err := yaml.Marshal(chart.Config)
	if err != nil {
		t.Fatal(err)
	}
	ofChart := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(ofChart, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{deploy + "compose/shunt.yaml", deploy + "debian/shunt.yaml", ofChart} {
		c, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if file == ofChart && chart.Replicas > 1 && !c.Store.Shared() {
			t.Errorf("%d Shunts of a store that one has", chart.Replicas)
		}
	}
}

// TestCompose: what compose.yaml mounts is there, and its services are those that the other files name.
func TestCompose(t *testing.T) {
	t.Parallel()
	type service struct {
		Volumes []string
		Ports   []string
	}
	var compose struct{ Services map[string]service }
	deployed(t, "compose.yaml", &compose)
	c, err := Load(deploy + "compose/shunt.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.Shards {
		if host, _, _ := strings.Cut(s.Addr, ":"); len(compose.Services[host].Volumes) == 0 {
			t.Errorf("shard %s is no service", s.Addr)
		}
	}
	for name, s := range compose.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(deploy + from); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s serves others than this machine: %s", name, p)
			}
		}
	}
	var prometheus struct {
		ScrapeConfigs []struct {
			Authorization struct{ Credentials string }
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	deployed(t, "compose/prometheus.yml", &prometheus)
	scrape := prometheus.ScrapeConfigs[0]
	if scrape.Authorization.Credentials != c.HTTPToken {
		t.Errorf("Prometheus has the token %q, Shunt %q", scrape.Authorization.Credentials, c.HTTPToken)
	}
	for _, target := range scrape.StaticConfigs[0].Targets {
		host, port, _ := strings.Cut(target, ":")
		if _, there := compose.Services[host]; !there || !strings.HasSuffix(c.HTTP, ":"+port) {
			t.Errorf("Prometheus asks %s", target)
		}
	}
}

// TestPackaged: the files of the package are there, and the unit starts what it has.
func TestPackaged(t *testing.T) {
	t.Parallel()
	var p struct {
		Contents []struct{ Src, Dst string }
		Scripts  map[string]string
	}
	deployed(t, "debian/nfpm.yaml", &p)
	var installed []string
	sources := slices.Collect(maps.Values(p.Scripts))
	for _, c := range p.Contents {
		installed = append(installed, c.Dst)
		if c.Src != "" && !strings.Contains(c.Src, "${STAGE}") {
			sources = append(sources, c.Src)
		}
	}
	for _, s := range sources {
		if found, err := filepath.Glob("../../../" + s); err != nil || len(found) == 0 {
			t.Errorf("%s isn't there", s)
		}
	}
	unit, err := os.ReadFile(deploy + "debian/shunt.service")
	if err != nil {
		t.Fatal(err)
	}
	start := regexp.MustCompile(`(?m)^ExecStart=(\S+) serve --config (\S+)$`).FindSubmatch(unit)
	if start == nil || !slices.Contains(installed, string(start[1])) || !slices.Contains(installed, string(start[2])) {
		t.Errorf("%s: the package has %v", start, installed)
	}
}
