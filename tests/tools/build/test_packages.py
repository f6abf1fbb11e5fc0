"""make add, make remove: a fork's packages, within the kit's versions."""

import os
import shutil
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.markers import Marker

from a2a_lambda.errors import ConfigurationError
from tests.conftest import ROOT, UV
from tests.helpers.wheels import write_wheel
from tools.agents import locks
from tools.agents.stages import architectures_of_stages
from tools.build import package_sizes, packages
from tools.environments import DEPENDENCIES

LISTED, LOCK = locks.LIST, locks.LOCK


@pytest.fixture(autouse=True)
def fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with no packages of its own, and an index with a few."""
    wheels = tmp_path / "wheels"
    write_wheel(wheels, "hammer", "1.0")
    write_wheel(wheels, "hammer", "2.0")
    write_wheel(wheels, "anvil", "1.0", "hammer<2", "pydantic>=2")
    write_wheel(wheels, "rusty", "1.0", "pydantic<2")
    for number in (version("pydantic"), "1.10"):
        write_wheel(wheels, "pydantic", number)
    for name in ("pyproject.toml", "uv.lock", str(DEPENDENCIES)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / LISTED).parent.mkdir(parents=True)
    (tmp_path / LISTED).write_text("# The agents' packages.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    monkeypatch.setenv("UV", UV)
    return tmp_path


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each change was installed. The tests' own environment stays as it is."""
    installations: list[bool] = []
    monkeypatch.setattr(packages, "install", lambda: installations.append(True))
    return installations


def test_a_package_is_listed_locked_and_installed(
    installed: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    packages.lock()
    packages.add(["anvil"])
    assert LISTED.read_text() == "# The agents' packages.\nanvil\n"
    lock = LOCK.read_text()
    assert "anvil==1.0" in lock
    assert "hammer==1.0" in lock
    assert "--hash=sha256:" in lock
    assert "pydantic" not in lock, "the kit has it"
    assert packages.is_locked()
    assert installed == [True]
    output = capsys.readouterr().out
    assert "added anvil 1.0" in output
    assert "its dependencies: hammer" in output


def test_a_version_that_may_surprise_is_explained(fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """uv goes back to the first versions of a package if no newer one fits, and even to a pre-release."""
    write_wheel(fork / "wheels", "rusty", "0.1")
    write_wheel(fork / "wheels", "tongs", "2.0rc1")
    packages.lock()
    packages.add(["hammer", "rusty[shine]", "tongs"])
    output = capsys.readouterr().out
    assert "note: rusty 1.0 fits what you asked for, but not the other packages, so uv chose 0.1." in output
    assert 'To see why, run make add PACKAGE="rusty[shine]==1.0"\n' in output
    assert "note: tongs 2.0rc1 is a pre-release\n" in output
    assert "hammer 2.0 fits" not in output
    packages.add(["hammer<2"])
    assert "added hammer 2.0 → 1.0\n" in capsys.readouterr().out
    packages.add(["tongs>=2.0rc1"])
    assert "pre-release" not in capsys.readouterr().out


def test_a_package_may_come_from_a_url(
    fork: Path,
    installed: list[bool],
    run_main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A company's own wheels do."""
    packages.lock()
    url = next((fork / "wheels").glob("hammer-2*")).as_uri()
    packages.add([f"hammer @ {url}"])
    assert f"added hammer {url}" in capsys.readouterr().out
    assert installed == [True]
    assert f"hammer @ {url}" in LOCK.read_text()
    assert not packages._is_installed(), "it is not in the tests' environment"
    packages.remove(["hammer"])
    monkeypatch.setenv("PACKAGE", f"hammer @ {url}")
    assert run_main("add") == 0
    assert "hammer" in LISTED.read_text()
    monkeypatch.setenv("PACKAGE", url)
    assert run_main("add") == 1
    assert f"write the package's name before its URL: name @ {url}" in capsys.readouterr().err


def test_wheels_are_looked_for_as_the_stages_say(
    fork: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fork with a package for x86_64 alone says so once, in samconfig.toml."""
    assert architectures_of_stages(os.environ) == ["arm64"]
    stage = '[{0}.deploy.parameters]\nstack_name = "a-{0}"\nparameter_overrides = "Architecture={1}"\n'
    (fork / "samconfig.toml").write_text(stage.format("dev", "x86_64") + stage.format("prod", "x86_64"))
    assert architectures_of_stages(os.environ) == ["x86_64"]
    (fork / "samconfig.toml").write_text(stage.format("dev", "x86_64") + stage.format("prod", "arm64"))
    assert architectures_of_stages(os.environ) == ["arm64", "x86_64"]
    monkeypatch.setenv("ARCH", "x86_64")
    assert architectures_of_stages(os.environ) == ["x86_64"]


@pytest.mark.parametrize(
    ("platforms", "advice"),
    [(["x86_64"], "deploy for x86_64: write Architecture=x86_64"), ([], "none for x86_64 either")],
)
def test_another_architecture_is_advised_only_if_it_has_the_wheels(
    monkeypatch: pytest.MonkeyPatch, platforms: list[str], advice: str
) -> None:
    def run(*arguments: str) -> None:
        if "--dry-run" in arguments and not any(name in " ".join(arguments) for name in platforms):
            raise ConfigurationError("hammer has no wheel")
        plain_run(*arguments)

    plain_run = packages._run
    monkeypatch.setattr(packages, "_run", run)
    with pytest.raises(ConfigurationError, match=f"no wheel for Lambda .arm64.*(?s:.*){advice}"):
        packages.add(["hammer"])


def test_an_entry_is_replaced_and_removed() -> None:
    packages.add(["hammer<2"])
    assert "hammer==1.0" in LOCK.read_text()
    packages.add(["hammer"])
    assert LISTED.read_text().count("hammer") == 1
    assert "hammer==2.0" in LOCK.read_text()
    packages.remove(["Hammer"])
    assert "hammer" not in LISTED.read_text() + LOCK.read_text()


def test_a_package_that_another_agent_has_does_not_change_unsaid(capsys: pytest.CaptureFixture[str]) -> None:
    packages.lock()
    packages.add(["hammer"])
    assert "changed" not in capsys.readouterr().out
    packages.add(["anvil"])
    assert "changed, for all agents: hammer 2.0 → 1.0" in capsys.readouterr().out


def test_what_the_kit_has_is_not_added(capsys: pytest.CaptureFixture[str]) -> None:
    packages.add(["pydantic"])
    assert "comes with the kit" in capsys.readouterr().out
    assert "pydantic" not in LISTED.read_text()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("rusty", "no version of rusty fits the versions that the kit uses"),
        ("pydantic<2", "no version of pydantic fits the versions that the kit uses"),
        ("no-such-package", "no-such-package cannot be added. "),
        ("???", "is not the name of a package"),
    ],
)
def test_what_cannot_be_added_changes_nothing(wanted: str, said: str) -> None:
    packages.add(["hammer"])
    before = LISTED.read_text(), LOCK.read_text()
    with pytest.raises(ConfigurationError) as error:
        packages.add([wanted])
    assert said in str(error.value)
    assert "sys_platform" not in str(error.value)
    assert (LISTED.read_text(), LOCK.read_text()) == before


def test_what_is_not_there_cannot_be_removed() -> None:
    packages.add(["hammer"])
    with pytest.raises(ConfigurationError, match=r"anvil is not in .*, which has hammer"):
        packages.remove(["anvil"])


def test_an_edit_by_hand_is_locked_here_and_refused_in_ci(
    monkeypatch: pytest.MonkeyPatch, run_main: Callable[[str], int], capsys: pytest.CaptureFixture[str]
) -> None:
    packages.lock()
    LISTED.write_text("hammer\n")
    assert not packages.is_locked()
    monkeypatch.setenv("CI", "true")
    assert run_main("sync") == 1
    assert "run `make lock`" in capsys.readouterr().err
    monkeypatch.delenv("CI")
    monkeypatch.setenv("AGENT", "elsewhere")  # of the deployment that a command calls
    assert run_main("sync") == 0
    assert "hammer==2.0" in LOCK.read_text()


def test_an_architecture_that_lambda_does_not_have_changes_nothing(
    run_main: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PACKAGE", "hammer")
    monkeypatch.setenv("ARCH", "amd64")
    assert run_main("add") == 1
    assert "use arm64 or x86_64" in capsys.readouterr().err
    assert LISTED.read_text() == "# The agents' packages.\n"


def test_new_versions_of_the_kits_packages_lock_again() -> None:
    packages.lock()
    DEPENDENCIES.write_text(DEPENDENCIES.read_text() + "# a change\n")
    assert not packages.is_locked()


@pytest.fixture
def run_main() -> Callable[[str], int]:
    return lambda *arguments: packages.main(["packages", *arguments])


@pytest.fixture
def agents(fork: Path) -> None:
    for name in ("smith", "rider"):
        folder = fork / "functions" / "agents" / name
        folder.mkdir(parents=True)
        (folder / "card.yaml").write_text("")


def test_an_agent_has_packages_of_its_own(
    agents: None,
    run_main: Callable[[str], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    smith = packages.list_of("smith")
    monkeypatch.setenv("AGENT", "smith")
    monkeypatch.setenv("PACKAGE", "anvil")
    assert run_main("add") == 0
    assert smith.read_text().splitlines()[1:] == ["anvil"]
    assert "anvil" not in LISTED.read_text()
    assert "anvil==1.0" in LOCK.read_text()
    assert packages.is_locked()
    output = capsys.readouterr().out
    assert f"Commit {smith} and {LOCK}" in output
    assert "of 250 MB" in output
    with pytest.raises(
        ConfigurationError, match=r"which has no packages\. It is in .*/smith/packages.txt: use AGENT"
    ):
        packages.remove(["anvil"])
    with pytest.raises(ConfigurationError, match="no agent 'nobody'"):
        packages.list_of("nobody")
    packages.remove(["anvil"], smith)
    assert "anvil" not in LOCK.read_text()


def test_the_sizes_of_stages_are_told(
    agents: None, fork: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (fork / "samconfig.toml").write_text(
        'version = 0.1\n[small.deploy.parameters]\nstack_name = "s"\n'
        'parameter_overrides = "AgentNames=rider Release=1"\n'
        '[large.deploy.parameters]\nstack_name = "l"\nparameter_overrides = ["AgentNames=smith,rider"]\n'
    )
    monkeypatch.setattr(package_sizes, "KIT_MB", 249)
    write_wheel(fork / "wheels", "ballast", "1.0", size=2_500_000)
    packages.add(["ballast"], packages.list_of("smith"))
    output = capsys.readouterr().out
    assert "small: about 249 of 250 MB" in output
    assert "large: about 25" in output
    assert "all agents" not in output
    assert "AgentNames in\nsamconfig.toml" in output
    lock = LOCK.read_text()
    packages.add(["ballast"], packages.list_of("smith"))
    assert LOCK.read_text() == lock, "the lock names nothing that changes by itself"
    assert "-c /" not in lock


def test_all_agents_share_one_resolution_and_a_stage_gets_its_part(agents: None) -> None:
    """The order in which packages were added makes no difference: anvil needs hammer<2, so every agent gets
    that."""
    packages.add(["hammer"], packages.list_of("rider"))
    assert "hammer==2.0" in LOCK.read_text()
    packages.add(["anvil"], packages.list_of("smith"))
    text = LOCK.read_text()
    assert "hammer==1.0" in text
    assert locks.lock_for(["smith", "rider"], text) == text
    for names, part in ((["rider"], {"hammer"}), (["smith"], {"anvil", "hammer"}), ([], set())):
        lock = locks.lock_for(names, text)
        assert locks.versions_in(lock).keys() == part
        assert lock.count("--hash=") >= len(part)
    packages.add(["hammer<2"])
    assert locks.versions_in(locks.lock_for([], LOCK.read_text())).keys() == {"hammer"}


def test_an_agent_that_is_renamed_locks_again(agents: None, fork: Path) -> None:
    packages.add(["hammer"], packages.list_of("smith"))
    folder = fork / "functions" / "agents"
    (folder / "smith").rename(folder / "farrier")
    assert not packages.is_locked()


def test_a_list_of_an_agent_that_cannot_be_locked_is_not_there(agents: None) -> None:
    with pytest.raises(ConfigurationError):
        packages.add(["rusty"], packages.list_of("smith"))
    assert not packages.list_of("smith").exists()


def test_the_lock_is_for_lambda_and_for_developers_machines_only() -> None:
    """A package that is published only as wheels has none for other platforms, so it could not be locked."""
    [environment] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["environments"]
    marker = Marker(environment)
    for place in ("linux aarch64", "linux x86_64", "darwin arm64", "win32 AMD64"):
        system, machine = place.split()
        assert marker.evaluate({"sys_platform": system, "platform_machine": machine})
    linux = {"sys_platform": "linux", "platform_machine": "x86_64"}
    assert not marker.evaluate({**linux, "sys_platform": "emscripten"})
    assert not marker.evaluate({**linux, "platform_python_implementation": "PyPy"})
    assert not marker.evaluate({**linux, "python_full_version": "3.15.0"})


def test_packages_are_locked_for_the_python_that_the_fork_names(
    fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fork / "pyproject.toml").write_text('[project]\nrequires-python = ">=3.13"\n')
    commands: list[tuple[str, ...]] = []

    def run(*arguments: str) -> None:
        commands.append(arguments)
        if arguments[0] == "pip":
            raise ConfigurationError("numpy needs 3.12\nhint: Consider a more restrictive requires-python")

    monkeypatch.setattr(packages, "_run", run)
    with pytest.raises(
        ConfigurationError, match=r"numpy needs 3.12\n\nThe packages are locked for Python 3.13"
    ):
        packages.lock(["numpy"])
    assert ("--python-version", "3.13") in zip(commands[-1], commands[-1][1:], strict=False)


def test_a_list_is_as_it_was_after_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    before = LISTED.read_text()

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(packages, "lock", interrupt)
    with pytest.raises(KeyboardInterrupt):
        packages.add(["alpha"])
    assert LISTED.read_text() == before
