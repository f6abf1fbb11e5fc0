# make <command> NAME=value is .venv/bin/a2a <command> NAME=value. This file installs what that needs.
#
#   make            list the commands; they are in tools/commands.py

SHELL := /bin/sh
PYTHON ?= python3

export UV_PYTHON_DOWNLOADS ?= never
UV_ON_PATH := $(shell command -v uv)
export UV := $(or $(UV_ON_PATH),$(CURDIR)/.uv/bin/uv)
# As a prerequisite it is relative: the path of the checkout may have a space.
FETCHED_UV := $(if $(UV_ON_PATH),,.uv/bin/uv)
# A call with PYTHON=… also chooses the interpreter of the environments.
ifeq ($(origin PYTHON),command line)
export UV_PYTHON := $(PYTHON)
.PHONY: .venv/synced
endif
# The interpreter of the environment may be gone, for example after an update of Homebrew or pyenv.
ifneq ($(shell test -x .venv/bin/python && echo yes),yes)
.PHONY: .venv/synced
endif
export PYTHONPATH := $(CURDIR)/layers/a2a:$(CURDIR)/functions:$(CURDIR)

# The variables of this call. Their values are passed on as they are written, with every dollar sign.
A2A_VARIABLES := $(strip \
  $(foreach a2a.each,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(a2a.each)))),$(a2a.each))))
$(foreach a2a.each,$(A2A_VARIABLES),$(eval override $(a2a.each) := $$(value $(a2a.each))))
export A2A_VARIABLES $(A2A_VARIABLES)
export A2A_GOALS := $(MAKECMDGOALS)

COMMANDS := run chat playground logs test check build image deploy invoke e2e bench scale costs key issuer secret setting doctor \
  restore account rollback prune redrive erase conformance validate agent rename upgrade add remove docs pictures install fire eval

.PHONY: help lock $(COMMANDS)
.DEFAULT_GOAL := help

NAME_PYTHON := make PYTHON=/usr/bin/python3.13
PYTHON_VERSIONS := >=3.11,<3.15

REFUSE_PYTHON = echo "error: $(1) is not Python 3.11 to 3.14, or does not start. Name another by its path: $(NAME_PYTHON)" >&2; \
  exit 1

# `make help` and an unknown command need no package, and any Python that is new enough.
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { $(call REFUSE_PYTHON,$(PYTHON)); }

# As uv finds it, which looks in more places than PATH, and may download one. uv itself may fail, with another
# status than 1, and says why.
CHECK_UV_PYTHON = "$(UV)" run --quiet --no-project --python "$${UV_PYTHON:-$(PYTHON_VERSIONS)}" python -c \
  'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' || { \
  test $$? = 1 || { echo "error: uv could not run Python: see above. If it found none, name one by its path: $(NAME_PYTHON)." \
  "If it cannot write its cache, set UV_CACHE_DIR" >&2; exit 1; }; \
  $(call REFUSE_PYTHON,$(or $(UV_PYTHON),python3)); }

help:
	@$(CHECK_PYTHON)
	@$(PYTHON) -m tools.a2a help

# An older release's make upgrade calls this with its own variables.
lock: | $(FETCHED_UV)
	@$(CHECK_PYTHON)
	@A2A_GOALS=upgrade $(PYTHON) -m tools.a2a lock

$(COMMANDS): .venv/synced
	@exec .venv/bin/python -m tools.a2a $@

.DEFAULT:
	@$(CHECK_PYTHON)
	@$(PYTHON) -m tools.a2a $@

# After an edit of pyproject.toml this locks again. In CI, a lock that does not match is an error.
.venv/synced: uv.lock pyproject.toml | $(FETCHED_UV)
	@$(CHECK_UV_PYTHON)
	@test -n "$$CI" || "$(UV)" lock --check --quiet 2> /dev/null || { \
	  echo "uv.lock does not match pyproject.toml or your package index: locking"; \
	  "$(UV)" run --quiet --no-project --python "$${UV_PYTHON:-$(PYTHON_VERSIONS)}" python -m tools.environments relock; }
	@"$(UV)" sync --locked --quiet
	@touch $@

.uv/bin/uv:
	@echo "fetching uv"
	@PIP_ROOT_USER_ACTION=ignore $(PYTHON) -m pip install -qq --disable-pip-version-check --target .uv \
	  --require-hashes --no-deps -r .ci/uv.txt || { \
	  echo "error: $(PYTHON) -m pip cannot fetch uv. Install pip, or uv itself: https://docs.astral.sh/uv/" >&2; exit 1; }
