"""Imports an agent's module as `agents.<name>.agent`.

The agents of a deployment share the package `agents`, which need not exist on disk. If a package of that name
is installed, agents can import it, too.
"""

import importlib.machinery
import importlib.util
import logging
import sys
import threading
from pathlib import Path
from types import ModuleType

from a2a_lambda import mistakes
from a2a_lambda.errors import ConfigurationError

_packages_lock = threading.Lock()
"""Held while the packages of an agent are made. Agents are imported in several threads."""


class _LogGuard:
    """Undoes what the import of an agent does to the logging of all of them.

    `logging.basicConfig(force=True)` in an agent's module removes the handler that keeps texts of users out
    of the log. So does `logging.config.dictConfig`, and by default it disables all loggers that it does not
    name, which would hide every agent's errors.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._imports = 0  # that run now: the first one sees the log as it was
        self._handlers: list[logging.Handler] = []
        self._levels = (logging.NOTSET, logging.NOTSET)

    def __enter__(self) -> None:
        with self._lock:
            if not self._imports:
                self._handlers = [*logging.root.handlers]
                self._levels = logging.root.level, logging.root.manager.disable
            self._imports += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._imports -= 1
            root_level, disabled_level = self._levels
            if not {*self._handlers} <= {*logging.root.handlers}:
                logging.root.handlers[:] = self._handlers
                logging.root.setLevel(root_level)
            logging.disable(disabled_level)
            for name, logger in list(logging.Logger.manager.loggerDict.items()):
                if name.startswith("a2a_lambda.") and isinstance(logger, logging.Logger):
                    logger.disabled = False


_log_guard = _LogGuard()


def import_agent(folder: Path) -> ModuleType:
    """Import agent.py of a folder as `agents.<name>.agent`, so that it can import the files beside it. Raises
    ConfigurationError."""
    path = folder / "agent.py"
    if not path.exists():
        raise ConfigurationError(
            f"{mistakes.short_path(path)}: not found: write it, with a function that has @skill"
        )
    with _packages_lock:
        # Of a copy: other agents may be imported at the same time.
        for module_name in [name for name in list(sys.modules) if name.startswith(f"agents.{folder.name}.")]:
            del sys.modules[module_name]
        parent = sys.modules.get("agents")
        # A test may have imported a folder beside the agents before: then it is a namespace package.
        if parent is None or str(folder.parent) not in parent.__path__:
            parent = _package("agents", folder.parent)
        setattr(parent, folder.name, _package(f"agents.{folder.name}", folder))
    name = f"agents.{folder.name}.agent"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _log_guard:
            try:
                spec.loader.exec_module(module)
            except ImportError as error:
                if (error.name or "").partition(".")[0] != "agents":
                    raise
                with _packages_lock:
                    if not join_installed_package(folder.parent):
                        raise
                spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too: an agent's module must not end the process
        raise mistakes.of_import(error, folder) from error
    vars(sys.modules[f"agents.{folder.name}"])["agent"] = module  # for tests that replace what it imports
    return module


def join_installed_package(agents: Path) -> bool:
    """Make `agents` the installed package of that name, which OpenAI's Agents SDK has, and the folder of the
    agents a part of it. Returns whether that is so now: another agent may have needed it a moment earlier."""
    spec = importlib.machinery.PathFinder.find_spec("agents")
    if spec is None or spec.loader is None or spec.origin in (None, str(agents / "__init__.py")):
        return False
    own_package = sys.modules["agents"]
    if own_package.__file__ == spec.origin:
        return True
    package = sys.modules["agents"] = importlib.util.module_from_spec(spec)
    package.__path__ = [*package.__path__, str(agents)]
    try:
        spec.loader.exec_module(package)
    except BaseException:
        sys.modules["agents"] = own_package
        raise
    return True


def _package(name: str, folder: Path) -> ModuleType:
    """A package whose `__init__.py`, which need not exist, does not run. `importlib.resources` and
    `pkgutil.get_data` read its files."""
    spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
    assert spec is not None
    package = sys.modules[name] = importlib.util.module_from_spec(spec)
    return package
