"""make build says what Lambda would refuse."""

from pathlib import Path

import pytest

from tools.build import size


def built(folder: Path, *, package: int) -> Path:
    for name, files in {
        "RpcFunction": {"rpc.py": 1},
        "ApiFunction": {"api.py": 2},
        "A2ALayer": {"python/a2a_lambda/kit.py": 1},
        "DependenciesLayer": {"python/heavy/data.bin": package, "python/light/data.bin": 1},
        "TracingLayer": {"python/sdk/data.bin": 0},
        "AgentsLayer": {"python/own/data.bin": 0},
    }.items():
        for path, megabytes in files.items():
            target = folder / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                file.truncate(megabytes * size.MB)
    return folder


def test_an_image_may_be_larger(tmp_path: Path) -> None:
    line, status = size.report(built(tmp_path, package=400), 2, for_image=True)
    assert (status, line.startswith("404.0 MB")) == (0, True)


def test_the_layer_of_tracing_counts_where_it_is(tmp_path: Path) -> None:
    build = built(tmp_path, package=240)
    with (build / "TracingLayer" / "python" / "sdk" / "data.bin").open("wb") as file:
        file.truncate(7 * size.MB)
    report, status = size.report(build, 2, has_tracing=True)
    assert (status, "tracing 7.0" in report) == (1, True)
    report, status = size.report(build, 2, has_tracing=False)
    assert (status, "tracing" in report) == (0, False)


@pytest.mark.parametrize(
    ("package", "status", "said"),
    [
        (100, 0, ["104.0 of 250 MB"]),
        (200, 0, ["warning", "204.0 of 250 MB", "heavy 200 MB"]),
        (246, 0, ["warning", "250.0 of 250 MB"]),
        (247, 1, ["error", "Lambda refuses", "fewer agents", "make build STAGE=…", "heavy 247 MB"]),
    ],
)
def test_sizes(tmp_path: Path, package: int, status: int, said: list[str]) -> None:
    report, exit_status = size.report(built(tmp_path, package=package), 2)
    assert exit_status == status
    assert all(words in report for words in said), report
    assert report.startswith("warning") is (package in (200, 246))


def test_a_single_agent_cannot_be_fewer(tmp_path: Path) -> None:
    report, status = size.report(built(tmp_path, package=247), 1)
    assert status == 1
    assert "fewer agents" not in report
