# Two commands do everything on a fresh Debian or Ubuntu machine: `make demo` and `make test`.
SHELL := /bin/bash
VENV  := .venv
PY    := $(VENV)/bin/python
STAMP := $(VENV)/.installed
ATHERIS := .fuzz/lib/atheris
FUZZ_SECONDS := 600
FUZZ_SEED := 0
SOAK_MINUTES := 30
MUTATION_SECONDS := 480
LIVE := tests/live
# Two halves at a time, which take as long: a loop of half a minute on two cores.
UNIT := $(PY) -m pytest -q -m "not root" --hypothesis-profile=quick
RULES := tests/unit/netpolicy tests/unit/gitmoat
LOCK := $(VENV)/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host
# git: the product's subject; nftables, bubblewrap: the walls; iproute2: tests look at namespaces;
# python3 (the system's own): runs the credential helper inside the gate; python3-venv: make setup
PACKAGES := git nftables bubblewrap iproute2 python3 python3-venv
# Tests alone: they start a Docker Engine of their own, and make images of what is installed here;
# systemd's tools measure our units, it does not have to run
TEST_PACKAGES := systemd busybox-static $(shell command -v dockerd >/dev/null || echo docker.io)
# curl, wget, node and npm are clients that they run in sandboxes
TEST_PACKAGES += curl wget nodejs $(shell command -v npm >/dev/null || echo npm)
# For foreign peers alone: what git is built with, and what its own tests of HTTP use
PEER_PACKAGES := apache2-bin gcc libc6-dev make gettext libcurl4-openssl-dev libexpat1-dev zlib1g-dev
PEER_PACKAGES += openssl perl libio-pty-perl xz-utils
# ... and clients that know git without being git
PEER_PACKAGES += python3-pygit2 cargo pre-commit

.PHONY: help setup packages test-packages demo unit wire live test test-long peer-packages peers peers-long soak mutations lint bench bench-smoke profile fuzz clean lock docs man pictures dist checksums changes

help:
	@echo "make demo       set up, then show the product at work on this machine (root, offline)"
	@echo "make unit       tests of what decides, without root, network or clock: half a minute"
	@echo "make wire       tests of protocols joined in memory and over loopback: minutes (root)"
	@echo "make live       tests of a whole Gitmoat on this machine (root; LIVE=tests/faults: other folders)"
	@echo "make test       set up, then lint and run every test but the long ones, upgrades included (root)"
	@echo "make test-long  1 GB transfers and long runs; saves bench/results/test-long.txt"
	@echo "make peers      git's own tests of HTTP, and foreign servers and clients; fetches and builds them first,"
	@echo "                and keeps them in ~/.cache/gitmoat-peers (root)"
	@echo "make peers-long  what of it takes longer; saves bench/results/peers-long.txt"
	@echo "make soak       half an hour of random faults over 50 sandboxes; saves bench/results/soak.txt"
	@echo "make lint       ruff and mypy"
	@echo "make fuzz       ten minutes of coverage-guided fuzzing of every reader"
	@echo "make mutations  weaken one control after the other for eight minutes, those of recently changed files"
	@echo "                first: a test must fail for each (MUTATION_SECONDS=0: all of them; root)"
	@echo "make bench      what the chain costs beside nginx, haproxy and others, and a sandbox beside a hostile"
	@echo "                one (BENCH=--quick: less; BENCH='--only neighbours': some)"
	@echo "make bench-smoke  a minute of it: has a ratio slipped by half?"
	@echo "make profile    where the time of our hops goes"
	@echo "make docs       the documentation as a site: build/docs/index.html"
	@echo "make man        the man pages: man/"
	@echo "make pictures   draw the picture of the demo anew"
	@echo "make dist       wheel, sdist, bill of materials and checksums: dist/"
	@echo "make changes    put the fragments of changelog.d into CHANGELOG.md, before a release"
	@echo "make setup      make .venv with everything that requirements.lock and requirements-dev.lock pin"
	@echo "make clean      remove .venv and everything that was built"
	@echo "make lock       resolve requirements.lock (what runs) and requirements-dev.lock (what builds and tests) anew"

setup: packages $(STAMP)

packages:
	@.ci/packages $(PACKAGES)

test-packages:
	@.ci/packages $(TEST_PACKAGES)

$(STAMP): requirements.lock requirements-dev.lock setup.cfg pyproject.toml
	@echo "setup: making $(VENV) and installing what requirements.lock and requirements-dev.lock pin"
	@$(PY) -c 'import sys' 2>/dev/null || .ci/environment $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes \
		-r requirements.lock -r requirements-dev.lock
	@PYTHONWARNINGS=ignore $(PY) -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --config-settings editable_mode=compat -e .
	@touch $@

demo: setup
	$(VENV)/bin/hostctl demo

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy .

# Each property with a few examples; `make test` takes more of them. And whether each mutation still
# finds the text that it weakens: seconds, where to run one takes minutes.
unit: $(STAMP)
	@$(UNIT) $(RULES) >$(VENV)/rules.log 2>&1 & rules=$$!; \
	$(UNIT) tests/unit tests/mutations $(RULES:%=--ignore=%); others=$$?; \
	wait $$rules; rules=$$?; cat $(VENV)/rules.log; exit $$((others || rules))

wire: setup
	$(PY) -m pytest -q tests/wire -m "not long" --hypothesis-profile=quick

live: setup test-packages
	$(PY) -m pytest -q $(LIVE) -m "not long"

test: setup test-packages lint
	$(PY) -m tests -m "not long"

test-long: setup test-packages $(ATHERIS)
	$(PY) -m pytest -m long -s --ignore=tests/peers 2>&1 | tee bench/results/test-long.txt; exit $${PIPESTATUS[0]}

peer-packages:
	@.ci/packages $(PEER_PACKAGES)

# What cannot be had makes it fail: nothing is skipped.
peers: setup peer-packages
	$(PY) -m pytest tests/peers -m "not long" -s

peers-long: setup peer-packages
	{ echo "$$(date -u +%F), at $$(git describe --always --dirty)"; $(PY) -m pytest tests/peers -m long -s; } 2>&1 \
		| tee bench/results/peers-long.txt; exit $${PIPESTATUS[0]}

soak: setup
	$(PY) -m tests.soak --minutes $(SOAK_MINUTES) $(SOAK) | tee bench/results/soak.txt; exit $${PIPESTATUS[0]}

# Beside the environment, not in it: lint and tests must not depend on it.
$(ATHERIS): | setup
	@$(PY) -m pip install --quiet --disable-pip-version-check --target $(dir $@) atheris==3.0.0

fuzz: setup $(ATHERIS)
	PYTHONPATH=$(dir $(ATHERIS)) $(PY) -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

mutations: setup test-packages
	$(PY) -m tests.mutations --seconds $(MUTATION_SECONDS)

# Installs what it compares with by itself; what cannot be installed makes it fail in the end.
bench: setup
	$(PY) -m bench.peers
	$(PY) -m bench $(BENCH)

# Where the time goes; perf is in linux-perf.
profile: setup
	@.ci/packages nginx-core fcgiwrap curl wrk linux-perf
	$(PY) -m bench.profile

bench-smoke: setup
	@.ci/packages nginx-core fcgiwrap curl wrk
	$(PY) -m bench --smoke

docs: setup
	$(VENV)/bin/sphinx-build -q -W --keep-going -b html docs build/docs

man: setup
	$(VENV)/bin/sphinx-build -q -W --keep-going -b man -d build/doctrees docs man

pictures: setup
	mkdir -p build
	$(VENV)/bin/hostctl demo > build/demo.txt
	$(PY) -m tools.terminal docs/pictures/demo.svg < build/demo.txt

dist: setup man
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(PY) -m build --quiet --no-isolation --outdir dist .
	$(PY) -m tools.sbom dist
	$(MAKE) checksums

checksums:
	cd dist && sha256sum *.cdx.json *.tar.gz *.whl > SHA256SUMS

lock: setup
	$(LOCK) --output-file requirements.lock setup.cfg
	$(LOCK) --extra dev --constraint requirements.lock --output-file requirements-dev.lock setup.cfg

changes: setup
	$(PY) -m tools.changelog

clean:
	rm -rf $(VENV) .fuzz build dist man docs/reference/cli docs/reference/made *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
