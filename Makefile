# `make` alone prints the targets.

GO            ?= go
VERSION       ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS       := -X main.version=$(VERSION)
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# DEMO_ARGS=--check runs the demo unattended.
DEMO_ARGS     ?=
# How long each fuzz test runs.
FUZZTIME      ?= 30s
# How long the never-miss test runs in `make soak`.
SOAK          ?= 5m
TPCH          ?= 0.05
# The cases of bench-quick; BENCH_ARGS='-rounds 5 -seconds 3' are further flags of ./bench.
ONLY          ?= one/point_select/text/8$$
BENCH_ARGS    ?=
STATEMENTS    ?= 200000
STATEMENTS_MARIADB ?= 50000
# How many random sessions make differential runs on each flavour.
SESSIONS      ?= 2000
# Which tests test-mariadb11 runs.
RUN           ?= .
# The first seed of `make differential`.
SEED          ?= $(shell date +%s)
SHELL         := bash

.DEFAULT_GOAL := help
.PHONY: help build image demo test test-mariadb11 race lint bench bench-quick bench-micro bench-tpch pgo differential fuzz e2e check soak

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/shunt
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/shunt ./cmd/shunt

image: ## Build the Docker image shunt (needs Docker)
	docker build --build-arg VERSION=$(VERSION) --tag shunt:$(VERSION) --tag shunt .

demo: build ## Start 4 throwaway shards with sample data and serve on 127.0.0.1:4000 (DEMO_ARGS=--check: unattended)
	@bin/shunt demo $(DEMO_ARGS)

test: ## All tests, against real MySQL and MariaDB servers (gets them first)
	scripts/with-servers $(GO) test -parallel 4 -timeout 60m ./...

test-mariadb11: ## The tests against a MariaDB 11.8, which Debian 13 has, in place of this machine's (RUN=TestScripts: some)
	export SHUNT_E2E_FLAVOURS=mariadb SHUNT_E2E_MARIADB_ROOT=$${XDG_CACHE_HOME:-$$HOME/.cache}/shunt/mariadb11 && \
		scripts/with-servers $(GO) test -parallel 4 -timeout 60m -run '$(RUN)' ./e2e ./planner/keys

race: ## All tests but the long ones, under the race detector
	SHUNT_E2E_RACE=1 scripts/with-servers $(GO) test -race -short -timeout 40m ./...

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
	. scripts/servers.sh && SHUNT_E2E_SEED=$(SEED) SHUNT_E2E_FLAVOURS=mysql SHUNT_E2E_STATEMENTS=$(STATEMENTS) SHUNT_E2E_SESSIONS=$(SESSIONS) $(GO) test -v -count=1 -timeout 6h -run '^(TestGenerated|TestRandomSessions)$$' ./e2e
	. scripts/servers.sh && SHUNT_E2E_SEED=$(SEED) SHUNT_E2E_FLAVOURS=mariadb SHUNT_E2E_STATEMENTS=$(STATEMENTS_MARIADB) SHUNT_E2E_SESSIONS=$(SESSIONS) $(GO) test -v -count=1 -timeout 6h -run '^(TestGenerated|TestRandomSessions)$$' ./e2e

fuzz: ## Each fuzz test for FUZZTIME (30s)
	scripts/fuzz $(FUZZTIME)

e2e: ## Only the end-to-end tests, with their logs (SHUNT_E2E_FLAVOURS=mariadb: one flavour)
	. scripts/servers.sh && $(GO) test -v -count=1 -parallel 4 -timeout 60m ./e2e/...

check: ## What to run before a push: lint, race tests, demo check
	$(MAKE) lint
	$(MAKE) race
	$(MAKE) demo DEMO_ARGS=--check

soak: ## The never-miss test for SOAK (5m) on each flavour
	. scripts/servers.sh && SHUNT_NEVERMISS=$(SOAK) $(GO) test -v -count=1 -timeout 2h -run 'NeverMiss' ./e2e
