"""Lets agents import an installed package that is called `agents`, too."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path


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
