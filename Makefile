# Everything starts here, and each target sets up what it needs.
#
#   make run      serve on http://127.0.0.1:8080            PORT=… LOCAL_KEY=…
#   make test     the whole test suite                      ARGS="-k store"
#   make check    tests, linter, type checker: what CI runs
#   make build    sam build, without Docker                 ARCH=arm64|x86_64
#   make deploy   build, and sam deploy as samconfig.toml says     STAGE=dev|prod  PARAMETERS="Name=value …"  ROLE=<CloudFormation's>
#   make invoke   one event through the built function     EVENT=events/send.json
#   make e2e      the template deployed to an emulator of AWS, and called there
#   make bench    cold start and first byte of the built functions
#   make costs    what a million messages cost
#   make key      list, make and revoke keys                NAME=… OWNER=… AGENTS=… DAYS=… REVOKE=1 STACK=…
#   make restore  put back what another table has     FROM=<table> STACK=…
#   make account  let API Gateway write access logs: once for an account and region
#   make rollback go back to the release before    STACK=… RELEASE=…
#   make prune    delete old versions    STACK=… KEEP=3
#   make redrive  send dead letters again    QUEUE=notices|turns|records STACK=…
#   make doctor   look at a live agent as its clients do, and at a stack     URL=… KEY=… TEXT=… STACK=…
#   make conformance  the public kit against our agent      TCK=<checkout> LINE=1.0|0.3
#   make validate lint what SAM makes of the templates
#   make lock     lock the dependencies again after editing pyproject.toml

SHELL := /bin/sh
PYTHON ?= python3
ARCH ?= arm64
BUILD_DIR ?= .aws-sam/build
LAMBDA_PYTHON ?= 3.13
ARGS ?=
STAGE ?=
PARAMETERS ?=
ROLE ?=
HOST_ARCH := $(patsubst aarch64,arm64,$(shell uname -m))

export UV_PYTHON_DOWNLOADS ?= never
export PYTHONPATH := $(CURDIR)/layers/a2a:$(CURDIR)/functions:$(CURDIR)
export UV := $(or $(shell command -v uv),$(CURDIR)/.uv/bin/uv)
export ARCH LAMBDA_PYTHON

# botocore and sam read AWS_DEFAULT_REGION alone; AWS's other SDKs, and our documents, say AWS_REGION.
ifdef AWS_REGION
export AWS_DEFAULT_REGION := $(AWS_REGION)
endif

VENVS := $(patsubst %,.venvs/%/synced,sam ministack a2a-0-2 a2a-0-3 a2a-1)
SYNC = $(UV) sync --locked --quiet
SAM = SAM_CLI_TELEMETRY=0 .venvs/sam/bin/sam

REQUIREMENTS = layers/dependencies/requirements.txt
EXPORT = $(UV) export --locked --quiet --no-dev --no-emit-project --no-annotate --no-header --output-file

.PHONY: help account rollback prune redrive requirements run test check build deploy invoke e2e bench costs key restore doctor conformance lock validate
.DEFAULT_GOAL := help

ifeq ($(filter arm64 x86_64,$(ARCH)),)
$(error ARCH=$(ARCH): it is arm64 or x86_64)
endif

help:
	@sed -n 's/^#   //p' Makefile

run: .venv/synced
	@exec .venv/bin/python -m tools.dev.server

test: .venv/synced $(VENVS)
	@.venv/bin/python -m pytest $(ARGS)

check: .venv/synced test validate
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet
	@.venv/bin/mypy --no-error-summary
	@echo "checked"

# Of what SAM makes of the template: sam validate --lint does not look at that.
validate: .venv/synced
	@.venv/bin/python -m tools.build.lint && echo "template.yaml, templates/: valid"

# Lambda's own Python compiles for it; without one there is no .pyc, and cold starts are slower. Each way
# of building has a folder of its own, since the keys of sam's cache, and its list of them, know none.
build: .venv/synced .venvs/sam/synced requirements
	@.venv/bin/python -m tools.build.check
	@PYTHON_LAMBDA=$$(for python in python$(LAMBDA_PYTHON) \
	    $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$(LAMBDA_PYTHON)*/bin/python$(LAMBDA_PYTHON); do \
	  $$python -c "" 2>/dev/null && echo $$python && break; done); export PYTHON_LAMBDA; \
	test -n "$$PYTHON_LAMBDA" || \
	  echo "no python$(LAMBDA_PYTHON) here: built without .pyc, cold starts will be slower"; \
	way=.aws-sam/ways/$(ARCH)-$(LAMBDA_PYTHON)$${PYTHON_LAMBDA:+-pyc}; mkdir -p $$way; \
	$(SAM) build --parallel --cached --cache-dir $$way/cache --build-dir $$way/build \
	  --parameter-overrides Architecture=$(ARCH) && \
	.venv/bin/python -m tools.build.size $$way/build && \
	rm -rf $(BUILD_DIR) && cp -R $$way/build $(BUILD_DIR) && echo "built: $(BUILD_DIR)"

# The dependency layer is built from what uv.lock says, whichever command wrote that.
requirements: .venv/synced | $(UV)
	@mkdir -p .aws-sam
	@$(EXPORT) .aws-sam/requirements.txt > /dev/null
	@cmp -s .aws-sam/requirements.txt $(REQUIREMENTS) || { \
	  echo "$(REQUIREMENTS) did not fit uv.lock: it is written again; commit it" >&2; \
	  cp .aws-sam/requirements.txt $(REQUIREMENTS); }

# One event through the built function under AWS's emulator of Lambda: what sam local invoke does in Docker.
invoke: .venv/synced
	@.venv/bin/python -m tools.build.invoke --check $(EVENT)
	@mkdir -p .aws-sam
	@$(MAKE) --no-print-directory build ARCH=$(HOST_ARCH) BUILD_DIR=.aws-sam/host > .aws-sam/host.log 2>&1 \
	  || { cat .aws-sam/host.log; exit 1; }
	@.venv/bin/python -m tools.build.invoke $(EVENT)

deploy: export STAGE := $(STAGE)
deploy: export PARAMETERS := $(PARAMETERS)
deploy: export BUILD_DIR := $(BUILD_DIR)
deploy: export ROLE := $(ROLE)
deploy: .venv/synced .venvs/sam/synced
	@.venv/bin/python -m tools.deployment.deploy check
	@$(MAKE) --no-print-directory build
	@SAM_CLI_TELEMETRY=0 .venv/bin/python -m tools.deployment.deploy

e2e: .venv/synced $(VENVS)
	@.venv/bin/python -c "import tests.e2e.stack as stack; print(stack.__doc__)"
	@.venv/bin/python -m pytest tests/e2e -n 0 -vv

# The figures behind docs/streaming.md.
bench: .venv/synced $(VENVS)
	@.venv/bin/python -m pytest tests/lambda_/test_speed.py -s -n 0

# The figures behind docs/operations.md.
costs: .venv/synced $(VENVS)
	@.venv/bin/python -m pytest tests/lambda_/test_costs.py -s -n 0

key: .venv/synced
	@NAME="$(NAME)" OWNER="$(OWNER)" AGENTS="$(AGENTS)" DAYS="$(DAYS)" REVOKE="$(REVOKE)" STACK="$(STACK)" \
	  .venv/bin/python -m tools.deployment.key

restore: .venv/synced
	@FROM="$(FROM)" STACK="$(STACK)" .venv/bin/python -m tools.deployment.restore

# Once for an account and region, after the first stack: API Gateway may write access logs.
account: export PARAMETERS := $(PARAMETERS)
account: .venv/synced .venvs/sam/synced
	@SAM_CLI_TELEMETRY=0 .venv/bin/python -m tools.deployment.account

rollback: .venv/synced
	@STACK="$(STACK)" RELEASE="$(RELEASE)" .venv/bin/python -m tools.deployment.versions rollback

prune: .venv/synced
	@STACK="$(STACK)" KEEP="$(KEEP)" .venv/bin/python -m tools.deployment.versions prune

redrive: .venv/synced
	@QUEUE="$(QUEUE)" STACK="$(STACK)" .venv/bin/python -m tools.deployment.redrive

doctor: .venv/synced
	@URL="$(URL)" KEY="$(KEY)" TEXT="$(TEXT)" STACK="$(STACK)" .venv/bin/python -m tools.deployment.doctor

conformance: .venv/synced
	@.venv/bin/python -m tests.conformance.run "$(TCK)" "$(LINE)"

lock: $(UV)
	$(UV) lock
	$(EXPORT) $(REQUIREMENTS) > /dev/null

# After an edit of pyproject.toml it is locked again; in CI a lock that does not fit is an error.
.venv/synced: uv.lock pyproject.toml | $(UV)
	@test -n "$$CI" || $(UV) lock --check --quiet 2> /dev/null || { \
	  echo "uv.lock does not fit pyproject.toml: locking"; $(UV) lock --quiet; }
	@$(SYNC)
	@touch $@

$(VENVS): .venvs/%/synced: .venv/synced | $(UV)
	@UV_PROJECT_ENVIRONMENT=.venvs/$* $(SYNC) --only-group $*
	@touch $@

$(CURDIR)/.uv/bin/uv:
	@echo "fetching uv"
	@$(PYTHON) -m pip install -qq --disable-pip-version-check --root-user-action ignore --target .uv \
	  --require-hashes --no-deps -r .ci/uv.txt
