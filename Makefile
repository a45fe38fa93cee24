# Everything is built without cgo and with the same flags, so that one build cache
# serves commands, tests and linters: Kubernetes is compiled once. Information for
# debuggers would take an eighth of the time, and be stripped. Without its pages of traces,
# grpc uses no templates, and the linker leaves out what nobody calls.
export CGO_ENABLED = 0
export GOFLAGS = -trimpath -gcflags=all=-dwarf=false -tags=grpcnotrace

# A compiler that collects less garbage is a tenth faster, and so is the linter.
BUILD := GOGC=800 go build

# Kubernetes components report these; without them they say "development version".
KUBE_VERSION := $(shell sed -n 's|^\tk8s.io/kubernetes v||p' go.mod)
KUBE_FLAGS := -X k8s.io/component-base/version.gitVersion=v$(KUBE_VERSION) \
	-X k8s.io/component-base/version.gitMajor=$(word 1,$(subst ., ,$(KUBE_VERSION))) \
	-X k8s.io/component-base/version.gitMinor=$(word 2,$(subst ., ,$(KUBE_VERSION)))
LDFLAGS := -s -w $(KUBE_FLAGS)

# Recipes with a pipe fail when any part of it does.
SHELL := bash
.SHELLFLAGS := -o pipefail -c

# A first build compiles some 2,000 packages: say how far it is, and pass on what
# is not a package's name.
PROGRESS := awk '/[ :]/ {print; next} ++n % 200 == 0 {printf "  %d packages compiled\n", n; fflush()}'

# Modules inside this one that use it, and so must compile with it.
MODULES := bench lab

COMMANDS := pinfold pinfold-agent pinfold-lab pinfold-local pinfold-scheduler
FUZZTIME ?= 20s

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

.PHONY: build
build: $(COMMANDS:%=bin/%) ## build all commands into bin/

# Go knows best what is out of date.
bin/%: FORCE
	@$(BUILD) -v -ldflags '$(LDFLAGS)' -o $@ ./cmd/$* 2>&1 | $(PROGRESS)

bin/pinfold-lab: FORCE
	@$(BUILD) -C lab -v -ldflags '$(LDFLAGS)' -o ../$@ ./pinfold-lab 2>&1 | $(PROGRESS)

.PHONY: FORCE
FORCE:

# What "pinfold-local up --node" and test/node need besides: the kubelet as it is, and
# the programs in the images. runc alone needs a C compiler.
NODE_IMAGES := pause pi web

.PHONY: build-node
build-node: ## build the programs of a real node into bin/node/
	@echo "building bin/node: the first time this takes minutes"
	@$(BUILD) -v -ldflags '$(LDFLAGS)' -o bin/node/kubelet k8s.io/kubernetes/cmd/kubelet 2>&1 | $(PROGRESS)
	@for name in $(NODE_IMAGES); do go build -ldflags '-s -w' -o bin/node/images/bin/$$name ./local/images/$$name || exit 1; done
	@tools/node/build bin/node

.PHONY: bpf
bpf: ## compile the BPF programs anew (clang-19, llvm-19, libbpf-dev)
	@tools/bpf/build linux/schedtrace/bpf/schedtrace.bpf.c linux/schedtrace/schedtrace.o
	@tools/bpf/build linux/runqueue/bpf/runqueue.bpf.c linux/runqueue/runqueue.o
	@tools/bpf/build linux/scx/bpf/scx.bpf.c linux/scx/scx.o

CHART_VERSION = $(shell sed -n 's/^appVersion: //p' deploy/chart/Chart.yaml)
PUBLISHED = GOGC=800 go run ./deploy/release

.PHONY: images
images: ## build the container images into bin/images/; REGISTRY=HOST/PATH pushes them; also TAG, PLATFORMS, IMAGES (directory)
	@echo "building images: the first time this compiles Kubernetes, 6 to 20 minutes on two cores for each of PLATFORMS" >&2
	@$(PUBLISHED) images -ldflags '$(LDFLAGS)' -o $(or $(IMAGES),bin/images) -tag $(or $(TAG),$(CHART_VERSION)) \
		$(if $(REGISTRY),-push $(REGISTRY)) $(if $(PLATFORMS),-platforms $(PLATFORMS)) 2> >($(PROGRESS) >&2)

# VERSION=v0.1.0 REGISTRY=registry.example.com/pinfold URL=https://example.com/v0.1.0 KEY=cosign.key
.PHONY: release
release: ## make the release of the tag VERSION in bin/release/ (VERSION, REGISTRY, URL, KEY); PUSH=1 pushes it; also PLATFORMS, DIR
	@echo "making a release: the first time this compiles Kubernetes, 6 to 20 minutes on two cores for each Linux of PLATFORMS" >&2
	@$(PUBLISHED) all -version '$(VERSION)' -registry '$(REGISTRY)' -url '$(URL)' -key '$(KEY)' -ldflags '$(LDFLAGS)' \
		-o $(or $(DIR),bin/release) $(if $(PUSH),-push) $(if $(PLATFORMS),-platforms $(PLATFORMS)) 2> >($(PROGRESS) >&2)

.PHONY: publish
publish: ## put the files of a release on its page at GitHub, with gh (VERSION, DIR)
	@gh release create '$(VERSION)' --verify-tag --title 'Pinfold $(VERSION)' --notes-file $(or $(DIR),bin/release)/NOTES.md \
		$$(find $(or $(DIR),bin/release) -maxdepth 1 -type f ! -name NOTES.md)

.PHONY: demo
demo: ## place the example pods on a local cluster and draw where they went
	@echo "building bin/pinfold-local: the first time this compiles Kubernetes, which takes minutes"
	@$(MAKE) --no-print-directory bin/pinfold-local
	@bin/pinfold-local demo

.PHONY: demo-node
demo-node: ## the same, with this machine as a real node: containers, and what the kernel says (root)
	@[ "$$(id -u)" = 0 ] || { echo "demo-node runs a kubelet on this machine and needs root: sudo make demo-node" >&2; exit 1; }
	@$(MAKE) --no-print-directory build-node bin/pinfold-agent bin/pinfold-local
	@bin/pinfold-local demo --node

.PHONY: demo-fleet
demo-fleet: ## verdicts on the CPU limits of a dozen services that run on this machine, from a Prometheus, with a page (root)
	@[ "$$(id -u)" = 0 ] || { echo "demo-fleet runs a kubelet on this machine and needs root: sudo make demo-fleet" >&2; exit 1; }
	@$(MAKE) --no-print-directory build-node bin/pinfold-agent bin/pinfold-local bin/pinfold bin/prometheus-server
	@bin/pinfold-local demo-fleet --html bin/fleet.html --force

# Every experiment on this machine, with raw data and one page about all: docs/lab.md.
LAB ?= lab-results
.PHONY: lab lab-quick
lab: bin/pinfold-lab ## run all experiments on this machine and report them in LAB, two hours (root)
	@bin/pinfold-lab run all --output $(LAB) && bin/pinfold-lab report $(LAB)
lab-quick: bin/pinfold-lab ## the same with fewer windows and conditions, about ten minutes (root)
	@bin/pinfold-lab run all --quick --output $(LAB) && bin/pinfold-lab report $(LAB)

# CLASSES="pure smoke" runs also one test of each real component, as the gate does.
CLASSES ?= pure
SUITE = bin/suite -ldflags='$(KUBE_FLAGS)'
.PHONY: test
test: bin/suite bin/gotestsum bin/helm4 ## run the tests that need no privileges and no quiet machine
	@$(SUITE) $(CLASSES)

# ONLY=REGEXP runs the units whose names match; FRESH=1 runs again what has passed. A program that
# names its commit is another one after each commit, and all tests that use it would run again.
.PHONY: test-all
test-all: export GOFLAGS += -buildvcs=false
test-all: build bin/suite bin/gotestsum bin/helm3 bin/helm4 ## run every test that this machine and user can run, and record it in test/record.md; resumable
	@$(SUITE) $(if $(ONLY),-only='$(value ONLY)') $(if $(FRESH),-fresh) whole

# One CPU, which is half of the machine that continuous integration has, beside two other programs.
.PHONY: flakes
flakes: build bin/suite bin/gotestsum bin/helm4 ## run the gate's tests many times on one CPU beside two busy loops, and print how often each passed; resumable (root; ONLY, TIMES)
	@trap 'kill $$(jobs -p)' EXIT; for i in 1 2; do while :; do :; done & done; \
	bin/pinfold run --limit 1 -- $(SUITE) $(if $(ONLY),-only='$(value ONLY)') $(if $(TIMES),-times=$(TIMES)) flakes

# What soak finds becomes a fixed case.
HOURS ?= 8
.PHONY: soak
soak: build bin/gotestsum ## run what is random with new seeds for HOURS (8)
	@end=$$(($$(date +%s) + $(HOURS) * 3600)); while [ $$(date +%s) -lt $$end ]; do \
	export PINFOLD_TEST_SEED=$$(date +%s); export RAPID_SEED=$$PINFOLD_TEST_SEED; echo "== seed $$RAPID_SEED"; \
	for module in . $(MODULES); do (cd $$module && PINFOLD_TEST_SOAK=1h $(CURDIR)/bin/gotestsum --format pkgname --format-hide-empty-pkg -- \
		-p 1 -count=1 -vet=off -timeout 4h -ldflags '$(KUBE_FLAGS)' \
		$$(git grep -lE 'rapid\.Check|variables\.Seed' -- '*_test.go' $(MODULES:%=':!%') | xargs -n 1 dirname | sort -u | sed 's#^#./#')) || exit; done; done

.PHONY: test-modules
test-modules: bin/suite bin/gotestsum ## run the tests of modules inside this one: experiments, benchmarks, autoscalers, Prometheus and the alerts
	@$(SUITE) -only='^module/' whole

# Of what is committed.
.PHONY: reproducible
reproducible: ## make a release in two clones and compare all of its bytes (PLATFORMS)
	@dir=$$(mktemp -d) && trap 'rm -rf $$dir' EXIT && openssl ecparam -name prime256v1 -genkey -noout -out $$dir/key && \
	git clone -q . $$dir/one && git -C $$dir/one tag v0.0.0-again && git clone -q $$dir/one $$dir/two && \
	for clone in one two; do $(MAKE) --no-print-directory -C $$dir/$$clone \
		release VERSION=v0.0.0-again REGISTRY=example.com/pinfold URL=https://example.com KEY=$$dir/key PLATFORMS='$(PLATFORMS)' || exit; done; \
	diff -r $$dir/one/bin/release $$dir/two/bin/release && cat $$dir/one/bin/release/SHA256SUMS

# Packages in which goroutines are started, by the code or by its tests. Those of test/ drive
# other processes, which the detector does not see; those of cmd run whole commands, whose goroutines
# have tests elsewhere; a package without tests would only be compiled.
.PHONY: race-packages
race-packages:
	@git grep -lE '^\s*go [a-zA-Z]|errgroup\.|\.Go\(func' -- '*.go' ':!test' ':!tools' $(MODULES:%=':!%') ':(exclude,glob)cmd/*/*.go' | xargs -n 1 dirname | sort -u | \
	while read -r d; do ! ls $$d/*_test.go >/dev/null 2>&1 || echo ./$$d; done

.PHONY: race
race: bin/suite bin/gotestsum ## run the tests of all packages that start goroutines with the race detector
	@$(SUITE) -only='^race' whole

.PHONY: fixtures
fixtures: ## capture the topology of the virtual machines of test/vm anew (PINFOLD_TEST_KERNEL)
	@test -n "$$PINFOLD_TEST_KERNEL" || (echo "set PINFOLD_TEST_KERNEL, see the package comment of test/vm" >&2; exit 1)
	@PINFOLD_UPDATE=captures go test ./test/vm -count=1 -run '^TestVM$$' -v
	@PINFOLD_UPDATE=1 go test ./linux/sysfs -count=1 -run '^TestFixtures$$'

.PHONY: lint
lint: bin/golangci-lint bin/helm4 ## run the linters
	@for dir in . $(MODULES); do (cd $$dir && GOGC=300 $(CURDIR)/bin/golangci-lint run ./...) || exit 1; done
	@$(call LINT_CHART,4)

LINT_CHART = bin/helm$(1) lint --strict --quiet --set image.registry=$(or $(REGISTRY),registry.example.com/pinfold) deploy/chart

.PHONY: lint-more
lint-more: bin/golangci-lint bin/helm3 lint-monitoring ## run the linters that take longer: alert rules, Helm 3, commands for other systems
	@cd tools/monitoring && ../../bin/golangci-lint run ./...
	@$(call LINT_CHART,3)
	@GOOS=darwin GOARCH=arm64 go vet ./cmd/pinfold # for laptops: topology, place, trace

# What is in deploy/ for Prometheus, against what the agent exposes. The dashboard's queries have tests in
# tools/monitoring, which test-modules runs.
.PHONY: lint-monitoring
lint-monitoring: bin/promtool ## check the alert rules, and when they fire
	@mkdir -p bin/prometheus # promtool wants the token's file
	@sed 's#: \[\.\./chart#: [../../deploy/chart#' deploy/prometheus/prometheus.yaml >bin/prometheus/prometheus.yaml
	@sed 's#/var/run/secrets.*token#/dev/null#' deploy/prometheus/scrape.yaml >bin/prometheus/scrape.yaml
	@bin/promtool check config --lint=all --lint-fatal bin/prometheus/prometheus.yaml
	@bin/promtool test rules deploy/prometheus/rules_test.yaml
	@bin/promtool check metrics <agent/testdata/metrics.prom

# What "kubectl apply" installs: the chart, rendered. The registry is a placeholder.
MANIFESTS ?= deploy/manifests
RENDER = render() { file=$(MANIFESTS)/$$1; shift; { \
	echo "\# Rendered from deploy/chart by 'make manifests': do not edit. 'make manifests REGISTRY=...' names your"; \
	echo "\# registry. Apply deploy/chart/crds first."; \
	bin/helm4 template pinfold deploy/chart --namespace pinfold-system --set namespace.create=true,uninstall.enabled=false,image.registry=$(or $(REGISTRY),registry.example.com/pinfold) "$$@"; } >$$file; }

.PHONY: manifests
manifests: bin/helm4 ## render the plain manifests from the chart into MANIFESTS (deploy/manifests)
	@$(RENDER); render agent.yaml --set scheduler.enabled=false && \
	render scheduler-secondary.yaml --set agent.enabled=false && \
	render scheduler-default.yaml --set agent.enabled=false,scheduler.mode=default

.PHONY: bench
bench: bin/benchstat ## run the benchmarks ten times and summarise them
	@bench/run

.PHONY: bench-once
bench-once: ## run each benchmark once, so that none rots between two runs of "make bench"
	@go test -vet=off -p 1 -timeout 20m -run '^$$' -bench . -benchtime 1x \
		$$(git grep -l '^func Benchmark' -- '*_test.go' $(MODULES:%=':!%') | xargs dirname | sort -u | sed 's,^,./,')

.PHONY: fuzz
fuzz: ## fuzz every parser for FUZZTIME (20s) each
	@grep -l '^func Fuzz' $$(git ls-files '*_test.go') | while read -r file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' $$file); do \
			echo "$$target in $$(dirname $$file)"; \
			go test -C $$(dirname $$file) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) || exit 1; \
		done; done

bin/golangci-lint: tools/go.mod
	@$(BUILD) -C tools -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/benchstat: tools/go.mod
	@$(BUILD) -C tools -o ../$@ golang.org/x/perf/cmd/benchstat

# Without the discovery of targets in some twenty clouds, which no rule needs and which
# would take longer to compile than all the rest.
bin/promtool: tools/monitoring/go.mod
	@echo "building bin/promtool: the first time this takes two to three minutes"
	@$(BUILD) -C tools/monitoring -tags remove_all_sd -o ../../$@ github.com/prometheus/prometheus/cmd/promtool

# For a test: without its pages, which npm would build.
bin/prometheus-server: tools/monitoring/go.mod
	@echo "building $@: the first time this takes one to two minutes"
	@$(BUILD) -C tools/monitoring -tags remove_all_sd -o ../../$@ github.com/prometheus/prometheus/cmd/prometheus

# Helm 3 is told by its builder which Kubernetes it is made of; Helm 4 finds out.
HELM_FLAGS := $(foreach v,Major=$(word 1,$(subst ., ,$(KUBE_VERSION))) Minor=$(word 2,$(subst ., ,$(KUBE_VERSION))), \
	-X helm.sh/helm/v3/pkg/chartutil.k8sVersion$(v) -X helm.sh/helm/v3/pkg/lint/rules.k8sVersion$(v))

bin/helm%: tools/helm%/go.mod
	@echo "building $@: the first time this takes one to two minutes"
	@$(BUILD) -C tools/helm$* -ldflags '-s -w $(HELM_FLAGS)' -o ../../$@ helm.sh/helm/v$*/cmd/helm

bin/suite: FORCE
	@$(BUILD) -o $@ ./test/suite

bin/gotestsum: tools/go.mod
	@$(BUILD) -C tools -o ../$@ gotest.tools/gotestsum

.PHONY: clean
clean: ## remove what was built
	@rm -rf bin .suite
