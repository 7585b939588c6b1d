package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/shunt-sql/shunt/ci/suite"
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

// strictly has deploy/strict read something, by Docker Compose's library or by Kubernetes' types.
func strictly(t *testing.T, input []byte, args ...string) (told []byte, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"run", "-C", deploy + "strict", "."}, args...)...)
	cmd.Stdin = bytes.NewReader(input)
	return cmd.CombinedOutput()
}

// TestPackagesCompose: Docker Compose's own library reads compose.yaml, and what it mounts and builds is there.
func TestPackagesCompose(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	if out, err := strictly(t, nil, "compose", "../compose.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(deploy + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	at, err := filepath.Abs(deploy)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := strings.NewReplacer(`"./`, `"`+at+"/", "- ./", "- "+at+"/", "build: ..", "build: "+filepath.Dir(at)).Replace(string(b))
	for _, change := range []struct {
		from, to string
		read     bool
	}{
		{"name: shunt", "name: shunt", true},
		{"healthcheck:", "healthchecks:", false},
		{"shunt.sql:", "none.sql:", false},
		{"s1: {condition", "s9: {condition", false},
	} {
		file := filepath.Join(t.TempDir(), "compose.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(elsewhere, change.from, change.to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := strictly(t, nil, "compose", file); (err == nil) != change.read {
			t.Errorf("with %s: %v\n%s", change.to, err, out)
		}
	}
}

// object is one of Kubernetes', as far as tests look at it.
type object struct {
	Kind       string
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Replicas             int
		MaxUnavailable       int                   `yaml:"maxUnavailable"`
		UpdateStrategy       struct{ Type string } `yaml:"updateStrategy"`
		ServiceName          string                `yaml:"serviceName"`
		VolumeClaimTemplates []any                 `yaml:"volumeClaimTemplates"`
		Selector             struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct {
				Labels, Annotations map[string]string
			}
			Spec struct {
				Grace           int `yaml:"terminationGracePeriodSeconds"`
				SecurityContext struct {
					RunAsNonRoot bool `yaml:"runAsNonRoot"`
					RunAsUser    int  `yaml:"runAsUser"`
				} `yaml:"securityContext"`
				Containers []struct {
					Image          string
					Args           []string
					StartupProbe   probe `yaml:"startupProbe"`
					LivenessProbe  probe `yaml:"livenessProbe"`
					ReadinessProbe probe `yaml:"readinessProbe"`
				}
			}
		}
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// helm is the program that the Makefile has, built.
func helm(t *testing.T) (program string) {
	t.Helper()
	makefile, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^HELM +:= (\S+)$`).FindSubmatch(makefile)
	if version == nil {
		t.Fatal("the Makefile names no helm")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install", string(version[1]))
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "helm")
}

// TestPackagesChart: what the chart installs by several values is read strictly, has what a rolling upgrade needs, and
// a configuration that Shunt takes.
func TestPackagesChart(t *testing.T) {
	suite.Long(t)
	t.Setenv("APP_PASSWORD", "a")
	t.Setenv("SHARD_PASSWORD", "b")
	program := helm(t)
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), program, append(args, "--kube-version", "1.31.0")...)
		var told bytes.Buffer
		cmd.Stderr = &told
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w\n%s%s", err, out, told.Bytes())
		}
		return out, err
	}
	if _, err := run("lint", "--strict", deploy+"helm/shunt"); err != nil {
		t.Error(err)
	}
	const local = "replicas=1,config.store=local,persistence.enabled=true"
	for _, c := range []struct {
		name, set string
		replicas  int
		claims    int
	}{
		{"default", "", 2, 0},
		{"five", "replicas=5,maxUnavailable=2,image.repository=example.org/shunt,image.tag=v1.2.3,httpToken=0123456789abcdef", 5, 0},
		{"local", local, 1, 1},
		{"all", "persistence.enabled=true,persistence.storageClass=fast,envFrom[0].secretRef.name=passwords,nodeSelector.disk=ssd,tolerations[0].operator=Exists,podAnnotations.a=b,seccompProfile.type=Unconfined,affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=x,affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists", 2, 1},
	} {
		out, err := run("template", "shunt", deploy+"helm/shunt", "--set", c.set)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if told, err := strictly(t, out, "kubernetes"); err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, told)
		}
		if wrong := bytes.Replace(out, []byte("readinessProbe"), []byte("readyProbe"), 1); c.name == "default" {
			if _, err := strictly(t, wrong, "kubernetes"); err == nil {
				t.Errorf("a key that Kubernetes doesn't know is read")
			}
		}
		objects := map[string]object{}
		for d := yaml.NewDecoder(bytes.NewReader(out)); ; {
			var o object
			if err := d.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			objects[o.Kind] = o
		}
		set, budget := objects["StatefulSet"], objects["PodDisruptionBudget"]
		pods := set.Spec.Template.Spec
		if set.Spec.Replicas != c.replicas || len(set.Spec.VolumeClaimTemplates) != c.claims || set.Spec.UpdateStrategy.Type != "RollingUpdate" || len(pods.Containers) != 1 {
			t.Errorf("%s: %+v", c.name, set)
			continue
		}
		if !pods.SecurityContext.RunAsNonRoot || pods.SecurityContext.RunAsUser == 0 {
			t.Errorf("%s: it runs as root", c.name)
		}
		labels := set.Spec.Template.Metadata.Labels
		if !maps.Equal(set.Spec.Selector.MatchLabels, labels) {
			t.Errorf("%s: %v isn't found by %v", c.name, labels, set.Spec.Selector.MatchLabels)
		}
		// A budget of one would keep its node from being drained.
		if several := c.replicas > 1; several != (budget.Kind != "") || several && (budget.Spec.MaxUnavailable < 1 || budget.Spec.MaxUnavailable >= c.replicas || !maps.Equal(budget.Spec.Selector.MatchLabels, labels)) {
			t.Errorf("%s: budget %+v", c.name, budget)
		}
		one := pods.Containers[0]
		for p, path := range map[probe]string{one.StartupProbe: "/healthz", one.ReadinessProbe: "/readyz", one.LivenessProbe: "/healthz"} {
			if p.HTTPGet.Path != path || p.HTTPGet.Port != "http" {
				t.Errorf("%s: %+v, want %s", c.name, p, path)
			}
		}
		file := filepath.Join(t.TempDir(), "shunt.yaml")
		if err := os.WriteFile(file, []byte(objects["Secret"].StringData["shunt.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		conf, err := Load(file)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if conf.Store.Shared() != (c.replicas > 1) || conf.HTTPToken != objects["Secret"].StringData["http_token"] || int(conf.DrainTimeout.Seconds()) >= pods.Grace {
			t.Errorf("%s: %+v, and %d s to end", c.name, conf, pods.Grace)
		}
	}
	if _, err := run("template", "shunt", deploy+"helm/shunt", "--set", "config.store=local"); err == nil || !strings.Contains(err.Error(), "set replicas to 1") {
		t.Errorf("two Shunts over a store that one has: %v", err)
	}
	// Another configuration is another pod; the same one isn't.
	changed := func(set string) string {
		t.Helper()
		out, err := run("template", "shunt", deploy+"helm/shunt", "--set", set)
		if err != nil {
			t.Fatal(err)
		}
		return string(regexp.MustCompile(`checksum/config: (\w+)`).Find(out))
	}
	if a, b, other := changed(""), changed("maxUnavailable=2"), changed("config.max_connections=7"); a == "" || a != b || a == other {
		t.Errorf("%s, %s, %s", a, b, other)
	}
}
