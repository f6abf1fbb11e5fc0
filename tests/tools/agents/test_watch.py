"""What make run says of code that keeps others waiting."""

import asyncio
import gc
import importlib.util
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from a2a_lambda import agent_threads
from tools.agents.watch import BLOCKED_SECONDS, LONG_SECONDS, Watch, thread_frames

CODE = """
import threading
gate = threading.Event()
began = threading.Event()


def hold():
    began.set()
    gate.wait(60)


async def hold_the_loop():
    hold()
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Any]:
    """Code of an agent that runs until its gate opens."""
    file = tmp_path / "agents" / "bad" / "agent.py"
    file.parent.mkdir(parents=True)
    file.write_text(CODE)
    spec = importlib.util.spec_from_file_location("held", file)
    assert spec is not None
    assert spec.loader is not None
    new_module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(new_module)
    yield new_module
    new_module.gate.set()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="garbage is collected between instructions")
def test_no_garbage_is_collected_while_the_threads_are_read() -> None:
    """On Python 3.11 the process would wait forever once another thread started or ended meanwhile."""
    readers: list[str] = []

    def record(_phase: str, _info: Any) -> None:
        readers.append(sys._getframe(1).f_code.co_name)

    thresholds = gc.get_threshold()
    gc.callbacks.append(record)
    gc.set_threshold(1)
    try:
        frames = [thread_frames() for _ in range(20)]
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(record)
    assert all(threading.get_ident() in each for each in frames)
    assert readers, "garbage is collected otherwise"
    assert thread_frames.__name__ not in readers
    assert gc.isenabled()


def looks(tmp_path: Path, *times: float) -> list[str]:
    warnings: list[str] = []
    watch = Watch(tmp_path / "agents", say=warnings.append)
    for time in times:
        watch.look(time)
    return warnings


@pytest.mark.parametrize(
    ("is_import", "limit", "what"), [(True, BLOCKED_SECONDS, "importing"), (False, LONG_SECONDS, "running")]
)
def test_code_that_does_not_end_is_named_once_with_its_line(
    tmp_path: Path, module: Any, is_import: bool, limit: float, what: str
) -> None:
    top_level = compile("hold()", module.__file__, "exec")
    run = partial(exec, top_level, vars(module)) if is_import else module.hold
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert module.began.wait(60)
    assert looks(tmp_path, 0.0, limit - 1) == []
    [line] = looks(tmp_path, 0.0, 1.0, limit, limit + 1, 2 * limit)
    assert line.endswith(f"agents/bad/agent.py:9 has been {what} for {limit:.0f} s")
    module.gate.set()
    thread.join()
    assert looks(tmp_path, 0.0, limit) == []


def test_a_skill_that_blocks_the_agents_loop_is_named(tmp_path: Path, module: Any) -> None:
    loop = agent_threads.get_agent_loop()
    blocking_call = asyncio.run_coroutine_threadsafe(module.hold_the_loop(), loop._loop)
    assert module.began.wait(60)
    [line] = looks(tmp_path, 0.0, 1.0, BLOCKED_SECONDS)
    assert "agent.py:9 has been running for 3 s, and blocks all async skills" in line
    module.gate.set()
    blocking_call.result(60)
