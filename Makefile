# The only command list of the project: make demo | test | test-snakemake-older | test-long | bench | bench-full | nextflow | docs | fmt | lint | build | clean

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The profile in which the crates are tested and linted.
export EDT_TEST_PROFILE ?= dev

RUST := Cargo.toml Cargo.lock clippy.toml $(shell find core python benchmarks/path -name '*.rs' -o -name Cargo.toml -o -name '*.bin' -o -name '*.hex' -o -path '*/src/*.safetensors' 2>/dev/null)
PACKAGE := pyproject.toml README.md $(shell find python -name '*.py' -o -name '*.pyi' -o -name py.typed 2>/dev/null)
SIMULATOR := $(shell find simulator -name '*.cpp' -o -name '*.hpp' -o -name '*.py' -o -name '*.pyi' -o -name CMakeLists.txt -o -name pyproject.toml -o -name README.md 2>/dev/null)
NEXTFLOW := $(shell find plugins/nextflow -path '*/src/*' -type f 2>/dev/null) plugins/nextflow/pom.xml plugins/nextflow/build.py
SNAKEMAKE := $(shell find plugins/snakemake -name '*.py' -o -name pyproject.toml -o -name README.md 2>/dev/null)
# Each call of mypy takes files of one folder, because `conftest` exists in more than one.
MYPY := $(BIN)/mypy --strict
# What pip installs. A registry that breaks off in the middle of a large file is asked again after a pause.
install = for after in "sleep 20" "sleep 120" false; do $(BIN)/python -m pip install --quiet $(1) && break || $$after; done
# In a variable, for a comma would part the words of a call.
EXTRAS := dev,train
# Most tests wait for programs most of the time, so two files run at once, each with servers of its own; but not those that measure times and rates.
TWO := -n 2 --dist loadfile
ALONE := $(addprefix tests/,endpoints/test_faulty.py endpoints/test_tuning.py filesystem/test_services.py \
	$(addprefix test_,path.py known_path.py rates.py explore.py timed.py broker.py first_and_last.py))
# They run real programs at real speed, beside whatever else a machine does: one that fails is run once more, and named at the end. It is a fault all
# the same, of the test or of edt: `make test AGAIN=0` accepts none.
AGAIN ?= 1
PYTEST := pytest --reruns $(AGAIN) -rfER
NEW_ENOUGH := $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'

.PHONY: build demo endpoints flight-clients nextflow test test-snakemake-older test-long bench bench-full docs fmt lint clean

build: target/release/edt target/release/edt-path $(VENV)/.package $(VENV)/.simulator $(VENV)/.snakemake

target/release/edt: $(RUST)
	cargo build --release --locked --workspace --bins
	@touch $@ target/release/edt-path

target/release/edt-path: target/release/edt

$(VENV)/.made:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 10), "edt needs Python 3.10 or newer"'
	$(PYTHON) -m venv $(VENV)
	$(call install,--upgrade pip)
	@touch $@

$(VENV)/.simulator: $(VENV)/.made $(SIMULATOR)
	$(call install,'./simulator[dev]')
	@touch $@

# pip builds in place, so the wheel shares the compiled dependencies of the command line. The simulator comes first: training needs it.
$(VENV)/.package: $(VENV)/.simulator $(RUST) $(PACKAGE)
	$(call install,'.[$(EXTRAS)]')
	@touch $@

# Snakemake 9 needs Python 3.11.
$(VENV)/.snakemake: $(VENV)/.package $(SNAKEMAKE)
	if $(NEW_ENOUGH); then $(call install,'./plugins/snakemake[dev]'); fi
	@touch $@

# The servers that tests of other services' endpoints run against.
$(VENV)/.endpoints: $(VENV)/.made tests/endpoints/programs.py tests/endpoints/install.py
	$(BIN)/python tests/endpoints/install.py || echo 'tests that need what is missing are skipped'
	@touch $@

endpoints: $(VENV)/.endpoints

# Flight clients in other languages, which the tests of the Flight service run.
target/flight/.built: $(VENV)/.made $(shell find tests/flight/java tests/flight/go -type f 2>/dev/null) tests/flight/programs.py tests/flight/build.py
	$(BIN)/python tests/flight/build.py || echo 'tests that need what is missing are skipped'
	@mkdir -p $(@D) && touch $@

flight-clients: target/flight/.built

# The plugin for Nextflow with the libraries of all machines that it can be built for here.
nextflow: $(VENV)/.made
	$(BIN)/python plugins/nextflow/build.py

# The same for this machine alone, and the Nextflow that the tests run it in.
target/nextflow/.built: $(VENV)/.made $(RUST) $(NEXTFLOW) plugins/nextflow/tests/programs.py plugins/nextflow/tests/install.py
	{ $(BIN)/python plugins/nextflow/build.py --host && $(BIN)/python plugins/nextflow/tests/install.py; } || echo 'tests that need what is missing are skipped'
	@mkdir -p $(@D) && touch $@

demo: build
	$(BIN)/python benchmarks/demo.py

test: build lint endpoints flight-clients target/nextflow/.built
	cargo test --locked --workspace --profile $(EDT_TEST_PROFILE)
	$(BIN)/python -m $(PYTEST) tests --ignore=tests/long $(ALONE:%=--ignore=%) --durations=20 $(TWO)
	$(BIN)/python -m $(PYTEST) $(ALONE) --durations=40
	cd simulator && ../$(BIN)/pytest
	if $(NEW_ENOUGH); then cd plugins/snakemake && ../../$(BIN)/$(PYTEST) $(TWO); fi
	cd plugins/nextflow && ../../$(BIN)/$(PYTEST) --ignore=tests/long $(TWO)

# The plugin with the oldest Snakemake that it is tested with.
test-snakemake-older: build endpoints
	$(BIN)/python plugins/snakemake/tests/older.py

test-long: build target/nextflow/.built
	$(BIN)/python -m pytest tests/long
	$(BIN)/python plugins/nextflow/tests/install.py all || echo 'tests that need what is missing are skipped'
	cd plugins/nextflow && ../../$(BIN)/pytest tests/long

bench: build
	$(BIN)/python benchmarks/run.py all --minutes 10

bench-full: build
	$(BIN)/python benchmarks/run.py all --full --resume --minutes 90

docs: build
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --workspace

fmt: $(VENV)/.package
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/.package $(VENV)/.simulator $(VENV)/.snakemake
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --profile $(EDT_TEST_PROFILE) -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --workspace --profile $(EDT_TEST_PROFILE)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MYPY) python/edt
	$(MYPY) benchmarks/*.py benchmarks/peers/*.py benchmarks/experiments/*.py
	$(MYPY) tests/*.py tests/long/*.py
	$(MYPY) tests/python/*.py
	$(MYPY) tests/parity/*.py
	$(MYPY) tests/endpoints
	$(MYPY) tests/flight
	$(MYPY) tests/filesystem
	$(MYPY) examples/*.py
	cd simulator && ../$(MYPY) edt_simulator && MYPYPATH=tests ../$(MYPY) tests benchmarks
	if $(NEW_ENOUGH); then cd plugins/snakemake && ../../$(MYPY) snakemake_storage_plugin_edt && ../../$(MYPY) tests; fi
	cd plugins/nextflow && ../../$(MYPY) build.py && ../../$(MYPY) tests
	$(BIN)/stubtest --mypy-config-file pyproject.toml edt._edt

clean:
	rm -rf target $(VENV) dist
