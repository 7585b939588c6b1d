# `make` alone prints the targets.

GO            ?= go
VERSION       ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS       := -X main.version=$(VERSION)
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
HELM          := helm.sh/helm/v3/cmd/helm@v3.22.0
# DEMO_ARGS=--check runs the demo unattended.
DEMO_ARGS     ?=
# How long each fuzz test runs.
FUZZTIME      ?= 30s
# How long the never-miss test runs in `make soak`.
SOAK          ?= 5m
# How many updates a second follow-load makes.
RATE          ?= 2000
# How long each half of a pair of virtual-load takes.
EACH          ?= 5s
TPCH          ?= 0.05
# The cases of bench-quick; BENCH_ARGS='-rounds 5 -seconds 3' are further flags of ./bench.
ONLY          ?= one/point_select/text/8$$
BENCH_ARGS    ?=
STATEMENTS    ?= 200000
STATEMENTS_MARIADB ?= 50000
# How many random sessions make differential runs on each flavour.
SESSIONS      ?= 2000
# Which tests test-mariadb11, test-apps and test-packages run.
RUN           ?= .
# The seed of `make check`, whose differences have been looked through: what fails is the change's. Another one is looked
# through by `make differential SEED=...`.
CHECKED_SEED  ?= 1796400000
# The first seed of `make differential` and `make damage`.
SEED          ?= $(shell date +%s)
SHELL         := bash

.DEFAULT_GOAL := help
.PHONY: help build image release chart site damage demo test test-long test-mariadb11 test-apps test-packages race lint bench bench-quick bench-micro bench-tpch pgo differential fuzz e2e check soak follow-load virtual-load covering-load heartbeats

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/shunt
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/shunt ./cmd/shunt

image: ## Build the Docker image shunt (needs Docker)
	docker build --build-arg VERSION=$(VERSION) --tag shunt:$(VERSION) --tag shunt .

release: ## What is released of VERSION (v1.2.3): archives, Debian packages, SBOMs and checksums in bin/release, the same bytes on any machine
	scripts/release $(VERSION)

chart: ## Check the Helm chart, and print what it installs (the first time builds helm)
	$(GO) run $(HELM) lint deploy/helm/shunt
	$(GO) run $(HELM) template shunt deploy/helm/shunt --kube-version 1.31.0

site: ## The documents as a static site with a search, in bin/site
	$(GO) run ./docs/site bin/site

demo: build ## Start 4 throwaway shards with sample data and serve on 127.0.0.1:4000 (DEMO_ARGS=--check: unattended; DEMO_ARGS='--members 3': three Shunts)
	@bin/shunt demo $(DEMO_ARGS)

test: ## What a change has to pass, against real MySQL and MariaDB servers (gets them first)
	scripts/with-servers $(GO) run ./ci/testrun -short -parallel 8 -timeout 60m ./...

test-long: ## All tests there are, each on both kinds of server
	scripts/with-servers $(GO) run ./ci/testrun -parallel 6 -timeout 3h ./...

test-mariadb11: ## The tests against a MariaDB 11.8, which Debian 13 has, in place of this machine's (RUN=TestScripts: some)
	export SHUNT_E2E_FLAVOURS=mariadb SHUNT_E2E_MARIADB_ROOT=$${XDG_CACHE_HOME:-$$HOME/.cache}/shunt/mariadb11 && \
		scripts/with-servers $(GO) run ./ci/testrun -short -parallel 8 -timeout 60m -run '$(RUN)' ./e2e ./planner/keys ./follow ./storage/... ./cluster/seat

test-apps: ## WordPress and MediaWiki, installed and used over Shunt and over one server, compared (RUN=TestApps/wordpress: one)
	. scripts/servers.sh && . scripts/apps.sh && $(GO) test -v -count=1 -timeout 90m -run '$(if $(filter .,$(RUN)),^TestApps$$,$(RUN))' ./e2e

test-packages: ## What is released, twice, and the Debian package, the image, the chart and compose.yaml as they are used, without Docker (part of test-long)
	. scripts/servers.sh && $(GO) test -v -count=1 -timeout 2h -run '$(if $(filter .,$(RUN)),^TestPackages,$(RUN))' ./e2e ./cmd/shunt/config

race: ## The tests of make test, under the race detector
	SHUNT_E2E_RACE=1 scripts/with-servers $(GO) run ./ci/testrun -race -short -parallel 4 -timeout 90m ./...

lint: ## Linter and formatter, version pinned
	$(GO) run $(GOLANGCI_LINT) run ./...

# What bench needs; it starts servers and peers itself.
BENCH := export SHUNT_E2E_FLAVOURS=mysql && . scripts/servers.sh && . scripts/peers.sh && $(GO) run ./bench -shunt bin/shunt

bench: build ## Measure against peers, and write docs/benchmarks.md (35 minutes; nothing else should run)
	$(BENCH) -o docs/benchmarks.md

bench-quick: build ## Measure the cases that match ONLY (one/point_select/text/8$$), and print them
	$(BENCH) -only '$(ONLY)' $(BENCH_ARGS)

bench-micro: ## Measure lexer, bind, lookup, relay and merge by themselves (BASE=<commit>: compared with that commit)
	scripts/bench-micro

pgo: build ## Make cmd/shunt/default.pgo, which builds are optimised by, from profiles of the benchmark
	rm -rf bin/profiles
	$(BENCH) -profiles bin/profiles -rounds 1 -seconds 3 -conns 8,32 -only 'one/.*/8$$|one/point_select/.*/32$$|four/'
	$(GO) tool pprof -proto bin/profiles/*.pprof > bin/default.pgo
	mv bin/default.pgo cmd/shunt/default.pgo

bench-tpch: build ## Measure TPC-H's queries at scale TPCH (0.05), and write their part of docs/benchmarks.md
	$(BENCH) -o docs/benchmarks.md -tpch $(TPCH)

differential: ## STATEMENTS (200000) generated statements on MySQL, STATEMENTS_MARIADB (50000) on MariaDB, SESSIONS (2000) on each, against one server each
	. scripts/servers.sh && export SHUNT_E2E_SEED=$(SEED) SHUNT_E2E_SESSIONS=$(SESSIONS) && rc=0 && \
		run() { SHUNT_E2E_FLAVOURS=$$1 SHUNT_E2E_STATEMENTS=$$2 $(GO) test -v -count=1 -timeout 6h -run '^(TestGenerated|TestRandomSessions)$$' ./e2e || rc=1; } && \
		run mysql $(STATEMENTS) && run mariadb $(STATEMENTS_MARIADB) && exit $$rc

fuzz: ## Each fuzz test for FUZZTIME (30s)
	scripts/fuzz $(FUZZTIME)

e2e: ## Only the end-to-end tests, with their logs (SHUNT_E2E_FLAVOURS=mariadb: one flavour)
	. scripts/servers.sh && $(GO) test -v -count=1 -parallel 6 -timeout 60m ./e2e/...

check: ## Everything there is, in hours: lint, all tests, those of make test under the race detector, MariaDB 11.8, soak, random statements
	$(MAKE) lint
	$(MAKE) test-long
	$(MAKE) race
	$(MAKE) test-mariadb11
	$(MAKE) soak
	$(MAKE) differential SEED=$(CHECKED_SEED)
	$(MAKE) demo DEMO_ARGS=--check

damage: ## Each file of an index store damaged in 50 ways of each kind, by seeds from SEED on
	SHUNT_DAMAGE=50 SHUNT_DAMAGE_SEED=$(SEED) $(GO) test -count=1 -timeout 2h -run '^TestDamage$$' ./storage

soak: ## The never-miss test for SOAK (5m) on each flavour
	. scripts/servers.sh && SHUNT_NEVERMISS=$(SOAK) $(GO) test -v -count=1 -timeout 2h -run 'NeverMiss' ./e2e

heartbeats: ## What the heartbeats of 20 members cost a server (nothing else should run)
	SHUNT_HEARTBEATS=1 scripts/with-servers $(GO) test -v -count=1 -run '^TestHeartbeats$$' ./cluster/seat

virtual-load: ## Reads of virtual columns and writes beside them, in pairs, EACH (5s)
	. scripts/servers.sh && SHUNT_VIRTUAL_TIME=$(EACH) $(GO) test -v -count=1 -timeout 1h -run '^TestVirtualLoad$$' ./e2e

covering-load: ## Reads by a covering index, and writes of its table, in pairs, EACH (5s)
	. scripts/servers.sh && SHUNT_COVERING_TIME=$(EACH) $(GO) test -v -count=1 -timeout 1h -run '^TestCoveringLoad$$' ./e2e

follow-load: ## RATE (2000) updates a second whose keys can't be computed, for SOAK (5m), with scans and with followed logs: what reads by index meet
	. scripts/servers.sh && SHUNT_FOLLOW_RATE=$(RATE) SHUNT_FOLLOW_TIME=$(SOAK) $(GO) test -v -count=1 -timeout 2h -run '^TestFollowedLoad$$' ./e2e
