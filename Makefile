# Everything starts here, and each target sets up what it needs.
#
#   make run      serve on http://127.0.0.1:8080            PORT=… LOCAL_KEY=…
#   make chat     talk to an agent in the terminal          AGENT=… VERSION=0.3 PORT=… URL=… or STACK=… KEY=… TEXT=…
#   make playground  a page to call a deployed stack, or any agent    STACK=… or URL=… KEY=… PORT=8081
#   make logs     follow the log of a stack                 STACK=… TASK=…
#   make test     test your agents, and the kit in brief      ARGS="functions/agents/weather"
#   make check    all tests, linter, type checker: what CI runs
#   make build    sam build, without Docker                 ARCH=arm64|x86_64
#   make image    build a container image's files, for more than 250 MB
#   make deploy   build, then sam deploy a stage of samconfig.toml     STAGE=dev|prod  PARAMETERS="Name=value …"  ROLE=<ARN for CloudFormation>  IMAGE=1
#   make invoke   send one event to the built function      EVENT=events/send.json
#   make e2e      deploy your agents to an emulator of AWS, and call them there
#   make bench    measure cold start and first byte of the built functions
#   make costs    compute what a million messages cost
#   make key      list, make and revoke keys                NAME=… OWNER=… AGENTS=… DAYS=… REVOKE=1 STACK=…
#   make secret   set a secret of your agents                NAME=openai STACK=… REMOVE=1
#   make setting  set a setting of your agents               NAME=model VALUE=… STACK=… REMOVE=1
#   make doctor   check a live agent as its clients would, and a stack     URL=… KEY=… TEXT=… STACK=…
#   make restore  copy missing items from another table     FROM=<table> STACK=…
#   make account  allow API Gateway to write access logs, once for an account and region
#   make rollback return to the release before              STACK=… RELEASE=…
#   make prune    delete old versions                       STACK=… KEEP=3
#   make redrive  send dead letters again                   QUEUE=notices|turns|records STACK=…
#   make conformance  run the public conformance kit against our agent      TCK=<checkout> LINE=1.0|0.3
#   make validate lint what SAM makes of the templates
#   make agent    write a new agent, or copy one of recipes/    NAME=weather FROM=bedrock
#   make rename   make the fork yours: names of stacks       NAME=acme-agents
#   make upgrade  merge a release of the kit                 UPSTREAM=… TO=v0.2.0
#   make add      add a package for your agents             PACKAGE="openai"
#   make remove   remove one                                PACKAGE=openai
#   make docs     build the documentation site in .site      SERVE=1
#   make pictures take the pictures of the docs from a running make run      URL=…
#   make lock     lock all packages again

SHELL := /bin/sh
PYTHON ?= python3
ARCH ?= arm64
BUILD_DIR ?= .aws-sam/build
LAMBDA_PYTHON ?= 3.13
ARGS ?=
STAGE ?=
PARAMETERS ?=
ROLE ?=
IMAGE ?=
HOST_ARCH := $(patsubst aarch64,arm64,$(shell uname -m))

export UV_PYTHON_DOWNLOADS ?= never
export PYTHONPATH := $(CURDIR)/layers/a2a:$(CURDIR)/functions:$(CURDIR)
export UV := $(or $(shell command -v uv),$(CURDIR)/.uv/bin/uv)
export ARCH LAMBDA_PYTHON

# botocore and sam read only AWS_DEFAULT_REGION. AWS's other SDKs, and our documents, use AWS_REGION.
ifdef AWS_REGION
export AWS_DEFAULT_REGION := $(AWS_REGION)
endif

# Tests that make check runs, and make test does not: they take long, or need other environments.
SLOW := access/test_keys_at_scale.py e2e faults interop processes push wire/test_round_trip.py \
  http/test_bad_input.py http/test_lists.py http/test_lost_streams.py http/versions turns/test_run.py \
  turns/test_worker.py lambda_/test_costs.py lambda_/test_emulator.py lambda_/test_image.py lambda_/test_runtime.py \
  lambda_/test_speed.py tools/build/test_lint.py tools/client/test_chat.py tools/dev/test_server.py \
  tools/docs/test_site.py tools/fork/test_upgrade.py tools/playground/test_browser_resumes.py

# Tools whose packages conflict with the kit's: each has a lock, and an environment, of its own.
ENVIRONMENTS := sam ministack a2a-0-2 a2a-0-3 a2a-1 clients recipes docs
VENVS := $(ENVIRONMENTS:%=.venvs/%/synced) $(if $(shell command -v npm),.venvs/js/installed)
SYNC = $(UV) sync --locked --quiet
SAM = SAM_CLI_TELEMETRY=0 .venvs/sam/bin/sam

# What clicks in the playground, if there is a browser.
export BROWSER := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
BROWSED := $(if $(BROWSER),.venv/browser)
NO_BROWSER := left out: tests of the playground in a browser, because there is no chromium or google-chrome

REQUIREMENTS = layers/dependencies/requirements.txt
PACKAGES := layers/agents
EXPORT = $(UV) export --locked --quiet --no-dev --no-emit-project --no-annotate --no-header --output-file

.PHONY: help docs pictures chat playground logs image upgrade agent rename add remove secret setting account rollback prune redrive requirements run test check build deploy invoke e2e bench costs key restore doctor conformance lock validate
.DEFAULT_GOAL := help

ifeq ($(filter arm64 x86_64,$(ARCH)),)
$(error ARCH=$(ARCH): use arm64 or x86_64)
endif

help:
	@sed -n 's/^#   //p' Makefile

run: .venv/synced
	@exec .venv/bin/python -m tools.dev.server

playground: .venv/synced
	@exec env STACK="$(STACK)" URL="$(URL)" KEY="$(KEY)" PORT="$(PORT)" .venv/bin/python -m tools.playground.serve

chat: export TEXT := $(value TEXT)
chat: .venv/synced
	@exec env AGENT="$(AGENT)" URL="$(URL)" PORT="$(PORT)" STACK="$(STACK)" KEY="$(KEY)" VERSION="$(VERSION)" .venv/bin/python -m tools.client.chat

logs: .venv/synced
	@exec env STACK="$(STACK)" TASK="$(TASK)" .venv/bin/python -m tools.client.logs

# The agents' tests, and those of the kit that take less than two minutes together. With ARGS, exactly those.
test: .venv/synced $(BROWSED) $(if $(filter tests%,$(ARGS)),$(VENVS))
	@test -n "$(BROWSED)" || echo "$(NO_BROWSER)"
	@.venv/bin/python -m pytest $(or $(ARGS),$(SLOW:%=--ignore=tests/%))

# The official clients run alone: they give up after 5 s, which other tests beside them can take.
check: .venv/synced $(BROWSED) $(VENVS) validate
	@test -n "$(BROWSED)" || echo "$(NO_BROWSER)"
	@.venv/bin/python -m pytest --ignore=tests/interop
	@.venv/bin/python -m pytest -n 0 tests/interop
	@PYTHONPATH=layers/a2a .venvs/recipes/bin/python -m pytest -o addopts="-q --import-mode=importlib" recipes
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet
	@.venv/bin/mypy --no-error-summary
	@echo "checked"

# It checks what SAM makes of the template, which sam validate --lint does not.
validate: .venv/synced
	@.venv/bin/python -m tools.build.lint && echo "template.yaml, templates/: valid"

# Lambda's version of Python compiles the code. Without it there is no .pyc, and cold starts are slower. Each
# variant of a build has a folder of its own, because sam's cache does not distinguish them.
build: .venv/synced .venvs/sam/synced requirements
	@.venv/bin/python -m tools.check functions/.manifest.json
	@PYTHON_LAMBDA=$$(for python in python$(LAMBDA_PYTHON) \
	    $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$(LAMBDA_PYTHON)*/bin/python$(LAMBDA_PYTHON); do \
	  $$python -c "" 2>/dev/null && echo $$python && break; done); export PYTHON_LAMBDA; \
	test -n "$$PYTHON_LAMBDA" || \
	  echo "no python$(LAMBDA_PYTHON) here: the build has no .pyc, and cold starts will be slower"; \
	variant=.aws-sam/variants/$(ARCH)-$(LAMBDA_PYTHON)$${PYTHON_LAMBDA:+-pyc}; mkdir -p $$variant; \
	A2A_HAS_MANIFEST=1 $(SAM) build --parallel --cached --cache-dir $$variant/cache --build-dir $$variant/build \
	  --parameter-overrides Architecture=$(ARCH) && \
	.venv/bin/python -m tools.build.size $$variant/build && \
	rm -rf $(BUILD_DIR) && cp -R $$variant/build $(BUILD_DIR) && echo "built: $(BUILD_DIR)"
	@test "$(MAKELEVEL)" != 0 || echo "Next: make e2e, then make deploy STAGE=dev"

# The dependency layer is built from uv.lock.
requirements: .venv/synced | $(UV)
	@mkdir -p .aws-sam
	@$(EXPORT) .aws-sam/requirements.txt > /dev/null
	@cmp -s .aws-sam/requirements.txt $(REQUIREMENTS) || { \
	  echo "$(REQUIREMENTS) did not match uv.lock. It was written again; commit it" >&2; \
	  cp .aws-sam/requirements.txt $(REQUIREMENTS); }

# What sam local invoke does with Docker, under AWS's emulator of Lambda.
invoke: .venv/synced
	@.venv/bin/python -m tools.build.invoke --check $(EVENT)
	@mkdir -p .aws-sam
	@$(MAKE) --no-print-directory build ARCH=$(HOST_ARCH) BUILD_DIR=.aws-sam/host > .aws-sam/host.log 2>&1 \
	  || { cat .aws-sam/host.log; exit 1; }
	@.venv/bin/python -m tools.build.invoke $(EVENT)

# The size of a layer does not count for an image.
image: export IMAGE := 1
image:
	@$(MAKE) --no-print-directory build
	@.venv/bin/python -m tools.build.image $(BUILD_DIR)

deploy: export IMAGE := $(IMAGE)
deploy: export STAGE := $(STAGE)
deploy: export PARAMETERS := $(PARAMETERS)
deploy: export BUILD_DIR := $(BUILD_DIR)
deploy: export BUILT := $(if $(IMAGE),.aws-sam/image,$(BUILD_DIR))
deploy: export ROLE := $(ROLE)
deploy: .venv/synced .venvs/sam/synced
	@.venv/bin/python -m tools.deployment.deploy check
	@$(MAKE) --no-print-directory $(if $(IMAGE),image,build)
	@$(if $(IMAGE),$(SAM) build --template .aws-sam/image/template.json --build-dir $(BUILD_DIR) \
	  --parameter-overrides Architecture=$(ARCH))
	@SAM_CLI_TELEMETRY=0 .venv/bin/python -m tools.deployment.deploy

e2e: .venv/synced $(VENVS)
	@.venv/bin/python -c "import tests.e2e.stack as stack; print(stack.__doc__)"
	@.venv/bin/python -m pytest tests/e2e/test_agents.py -n 0 -vv -s

# The figures in docs/streaming.md.
bench: .venv/synced $(VENVS)
	@.venv/bin/python -m pytest tests/lambda_/test_speed.py -s -n 0

# The figures in docs/operations.md.
costs: .venv/synced $(VENVS)
	@.venv/bin/python -m pytest tests/lambda_/test_costs.py -s -n 0

key: .venv/synced
	@NAME="$(NAME)" OWNER="$(OWNER)" AGENTS="$(AGENTS)" DAYS="$(DAYS)" REVOKE="$(REVOKE)" STACK="$(STACK)" \
	  .venv/bin/python -m tools.deployment.key

secret setting: export VALUE := $(value VALUE)
secret setting: .venv/synced
	@NAME="$(NAME)" STACK="$(STACK)" REMOVE="$(REMOVE)" .venv/bin/python -m tools.deployment.secret $@

restore: .venv/synced
	@FROM="$(FROM)" STACK="$(STACK)" .venv/bin/python -m tools.deployment.restore

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

docs: .venv/synced .venvs/docs/synced
	@SERVE="$(SERVE)" .venv/bin/python -m tools.docs.site

pictures: .venv/browser
	@URL="$(URL)" .venv/bin/python -m tests.tools.playground.pictures

conformance: .venv/synced
	@.venv/bin/python -m tests.conformance.run "$(TCK)" "$(LINE)"

# It locks in CI, too, where a list without its lock is an error elsewhere.
lock: $(UV)
	$(UV) lock
	@for environment in $(ENVIRONMENTS); do \
	  echo "environments/$$environment"; $(UV) lock --project environments/$$environment || exit 1; done
	$(EXPORT) $(REQUIREMENTS) > /dev/null
	@$(MAKE) --no-print-directory CI= .venv/synced
	@CI= .venv/bin/python -m tools.build.packages sync

agent rename: .venv/synced
	@NAME="$(NAME)" FROM="$(FROM)" .venv/bin/python -m tools.fork.$@
	@test $@ = agent || $(UV) lock --quiet

upgrade: .venv/synced
	@UPSTREAM="$(UPSTREAM)" TO="$(TO)" .venv/bin/python -m tools.fork.upgrade

add remove: export PACKAGE := $(value PACKAGE)
add remove: .venv/synced
	@.venv/bin/python -m tools.build.packages $@

# After an edit of pyproject.toml this locks again. In CI, a lock that does not match is an error.
.venv/synced: uv.lock pyproject.toml $(wildcard $(PACKAGES)/*.txt) | $(UV)
	@test -n "$$CI" || $(UV) lock --check --quiet 2> /dev/null || { \
	  echo "uv.lock does not match pyproject.toml: locking"; $(UV) lock --quiet; }
	@$(SYNC) $(if $(wildcard .venv/browser),--group browser)
	@.venv/bin/python -m tools.build.packages sync
	@touch $@

.venv/browser: .venv/synced
	@$(SYNC) --inexact --group browser # inexact: the agents' packages stay
	@touch $@

$(ENVIRONMENTS:%=.venvs/%/synced): .venvs/%/synced: environments/%/uv.lock environments/%/pyproject.toml | $(UV)
	@UV_PROJECT_ENVIRONMENT=$(CURDIR)/.venvs/$* $(SYNC) --project environments/$*
	@touch $@

.venvs/js/installed: environments/js/package-lock.json
	@mkdir -p $(@D) && cp environments/js/package*.json $(@D)
	@cd $(@D) && npm ci --silent --no-audit --no-fund
	@touch $@

$(CURDIR)/.uv/bin/uv:
	@echo "fetching uv"
	@$(PYTHON) -m pip install -qq --disable-pip-version-check --root-user-action ignore --target .uv \
	  --require-hashes --no-deps -r .ci/uv.txt
