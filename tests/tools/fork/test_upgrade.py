"""make upgrade: a fork made at an older commit comes to today's, without a conflict."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, UV
from tests.helpers.wheels import write_stubs, write_wheel
from tests.tools.fork.repositories import EXAMPLE, STATEMENT, Repository, make_fork, make_releases, own
from tools.fork import upgrade
from tools.fork.owned import OWN_FILES, is_own

pytestmark = pytest.mark.slow(seconds=105)

OWN_PLACES = ("template.yaml", "README.md", "pyproject.toml")
"""Files of the kit in which a fork has a part of its own."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repository, Repository]:
    """The kit and a fork of it, beside an index with the kit's packages and one of the fork's."""
    folder = tmp_path_factory.mktemp("upgrade")
    wheels = folder / "wheels"
    write_stubs(wheels, ROOT / "uv.lock")
    write_wheel(wheels, "anvil", "1.0", "pydantic>=2")
    # A cache of its own: offline, uv would take a version that its usual cache only has the name of.
    cache = {"UV_CACHE_DIR": str(folder / "cache"), "UV_OFFLINE": "1"}
    index = {"UV": UV, **cache, "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(wheels)}
    kit = Repository(folder / "kit", index)
    make_releases(kit)
    fork = Repository(folder / "fork", index)
    make_fork(fork, kit)
    return kit, fork


@pytest.fixture
def upstream(history: tuple[Repository, Repository], tmp_path: Path) -> Repository:
    return history[0].copy(tmp_path / "kit")


@pytest.fixture
def fork(history: tuple[Repository, Repository], tmp_path: Path) -> Repository:
    return history[1].copy(tmp_path / "fork")


def test_a_fork_is_brought_to_today(fork: Repository, upstream: Repository) -> None:
    before = own(fork)
    output = fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}")
    assert "merged v0.0.2" in output
    assert not fork.run("git", "status", "--porcelain"), "everything is committed"
    after = own(fork)
    lock = "layers/agents/requirements.txt"
    assert "anvil==1.0" in after.pop(lock).decode(), "locked with the kit's packages of today"
    before.pop(lock)
    assert after == before
    template = (fork.folder / "template.yaml").read_text()
    assert f"{STATEMENT}          - Sid: Files # of an older kit\n" in template, "the place is the fork's"
    assert "SHOP: acme" in template
    assert (fork.folder / "samples" / "ours.md").exists(), "not moved with the kit's files"
    for path in fork.run("git", "ls-files").splitlines():
        if path != "samples/ours.md" and not is_own(path) and path not in (*OWN_PLACES, "uv.lock"):
            assert (fork.folder / path).read_bytes() == (upstream.folder / path).read_bytes(), path
    for path, words in (
        ("template.yaml", "Table:\n"),
        ("README.md", "## Getting started"),
        ("pyproject.toml", "uvicorn"),
    ):
        assert words in (fork.folder / path).read_text(), path
    assert "Agents that sell anvils." in (fork.folder / "README.md").read_text()
    assert 'name = "acme"' in (fork.folder / "uv.lock").read_text()
    assert not (fork.folder / EXAMPLE).exists(), "the example does not come back"
    fork.run("git", "tag", "v9.0.0")
    assert "already contains v0.0.2" in fork.run("make", "upgrade"), (
        "the fork's own tags are not releases of the kit"
    )


def test_what_the_fork_made_of_the_example_stays_its_own(fork: Repository, upstream: Repository) -> None:
    """It stays the same, too, if the kit moves the example elsewhere."""
    fork.run("git", "reset", "--quiet", "--hard", "v0.0.1")
    fork.edit(f"{EXAMPLE}/agent.py", "Dribble low.", "Our own advice.")
    fork.lock()
    fork.commit("ours")
    (upstream.folder / EXAMPLE).rename(upstream.folder / "examples" / "assistant")
    upstream.commit("the example moves")
    fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", "TO=main")
    assert "Our own advice." in (fork.folder / EXAMPLE / "agent.py").read_text()
    example_path = "examples/assistant/agent.py"
    assert (fork.folder / example_path).read_bytes() == (upstream.folder / example_path).read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "数据.csv".encode(),
        pytest.param(
            "größe.csv".encode("latin-1"),
            marks=pytest.mark.skipif(sys.platform == "darwin", reason="APFS has no such names"),
        ),
    ],
)
def test_a_fork_may_have_names_in_any_script(fork: Repository, upstream: Repository, name: bytes) -> None:
    path = fork.folder / "functions" / "agents" / os.fsdecode(name)
    path.write_text("1,2\n")
    fork.commit("data")
    assert "merged v0.0.2" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}")
    assert "nowhere" in fork.run("make", "upgrade", "UPSTREAM=/nowhere", fails=True)
    assert fork.run("git", "remote", "get-url", "upstream").strip() == str(upstream.folder), "it stays"
    assert path.read_text() == "1,2\n"


def test_a_copy_without_all_of_its_history_is_told_to_fetch_it(
    fork: Repository, upstream: Repository, tmp_path: Path
) -> None:
    fork.run("git", "clone", "--quiet", "--depth=1", f"file://{fork.folder}", str(tmp_path / "shallow"))
    shallow = Repository(tmp_path / "shallow", fork.uv)
    assert "git fetch --unshallow" in shallow.run(
        "make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True
    )


def test_a_copy_without_history_is_told_how_to_join(fork: Repository, upstream: Repository) -> None:
    shutil.rmtree(fork.folder / ".git")
    assert "git init && git add" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True)
    fork.run("git", "init", "--quiet", "--initial-branch=main")
    assert "no commit yet" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True)
    fork.commit("from a template")
    error = fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True)
    assert "no common history" in error
    match = re.search(r"v0\.0\.1  (\w{40})", error)
    assert match is not None, error
    # Joined with the commit of the branch, it would never get what the branch has changed.
    assert "-s ours <commit>\n" in fork.run("make", "upgrade", "TO=main", fails=True)
    fork.run("git", "merge", "--quiet", "--allow-unrelated-histories", "-s", "ours", match[1])
    assert "merged v0.0.2" in fork.run("make", "upgrade")


def test_a_kit_without_tags_has_its_releases(fork: Repository, upstream: Repository) -> None:
    """A release is the commit that gives pyproject.toml a version which the changelog has."""
    for tag in ("v0.0.1", "v0.0.2"):
        upstream.run("git", "tag", "--delete", tag)
    version = re.search(r'(?m)^version = "(.+)"', (upstream.folder / "pyproject.toml").read_text())
    assert version is not None
    assert f"merged v{version[1]}" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}")
    assert f"already contains v{version[1]}" in fork.run("make", "upgrade", f"TO=v{version[1]}")
    assert "no release, tag" in fork.run("make", "upgrade", "TO=v9.9.9", fails=True)


@pytest.mark.parametrize(
    ("line", "is_restored"),
    [
        ('registry = "https://mirror.example.com/simple", version = "1"', True),
        ('registry = "https://pypi.org/simple", version = "2"', False),
        ('registry = "https://pypi.org/simple", git = "https://example.com/a#bb", version = "1"', False),
    ],
)
def test_a_lock_for_another_index_is_no_change(
    line: str, is_restored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """make has locked for a mirror before the command begins, and would do so again after git stash."""
    repository = Repository(tmp_path, {})
    lock = tmp_path / "uv.lock"
    lock_text = 'registry = "https://pypi.org/simple", version = "1"\n'
    lock.write_text(lock_text)
    repository.run("git", "init", "--quiet")
    repository.commit("locked")
    lock.write_text(f"{line}\n")
    monkeypatch.chdir(tmp_path)
    upgrade._restore_lock()
    assert (lock.read_text() == lock_text) is is_restored


def test_a_conflict_in_the_kits_files_is_left_to_the_fork(fork: Repository, upstream: Repository) -> None:
    fork.edit("layers/a2a/a2a_lambda/kit.py", "class OldKit:", "class OurKit:")
    fork.commit("a change of the kit")
    error = fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True)
    assert "layers/a2a/a2a_lambda/kit.py" in error
    assert "functions/agents" not in error
    assert "To give up: git reset --hard" in error
    output = fork.run("make", "upgrade", fails=True)
    assert "a merge is still in progress. Next: resolve the conflicts" in output
    fork.run("make", "lock")
    fork.run("git", "reset", "--quiet", "--hard")
    assert not fork.run("git", "status", "--porcelain")
    assert "kit.py" in fork.run("make", "upgrade", fails=True), "it begins again"


def test_a_laboratory_that_the_fork_has_deleted_does_not_come_back(
    fork: Repository, upstream: Repository
) -> None:
    (upstream.folder / "lab").mkdir(exist_ok=True)
    (upstream.folder / "lab" / "old.py").write_text("old = 1\n")
    upstream.commit("a laboratory")
    fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", "TO=main")
    fork.run("git", "rm", "-rq", "lab")
    fork.commit("no laboratory")
    (upstream.folder / "lab" / "old.py").write_text("old = 2\n")
    (upstream.folder / "lab" / "new.py").write_text("new = 1\n")
    upstream.commit("another experiment")
    assert "merged" in fork.run("make", "upgrade", "TO=main")
    assert not fork.run("git", "ls-files", "lab")


def test_a_fork_that_is_older_than_the_laboratory_gets_it(fork: Repository, upstream: Repository) -> None:
    upstream.run("git", "rm", "-rq", "--ignore-unmatch", "lab")
    (upstream.folder / "CHANGES").write_text("no laboratory\n")
    upstream.commit("no laboratory")
    fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", "TO=main")
    assert not fork.run("git", "ls-files", "lab")
    (upstream.folder / "lab").mkdir(exist_ok=True)
    (upstream.folder / "lab" / "new.py").write_text("new = 1\n")
    upstream.commit("a laboratory")
    assert "merged" in fork.run("make", "upgrade", "TO=main")
    assert fork.run("git", "ls-files", "lab") == "lab/new.py\n"


def test_a_change_follows_a_file_that_the_other_side_renames(fork: Repository, upstream: Repository) -> None:
    fork.edit("templates/Dockerfile", "ARG", "ARG OURS\nARG")
    (fork.folder / "docs" / "costs.md").rename(fork.folder / "docs" / "prices.md")
    fork.commit("ours")
    (upstream.folder / "templates" / "Dockerfile").rename(upstream.folder / "templates" / "Containerfile")
    upstream.edit("docs/costs.md", "# ", "# All ")
    upstream.commit("the kit's")
    assert "merged" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", "TO=main")
    assert "ARG OURS" in (fork.folder / "templates" / "Containerfile").read_text()
    assert (fork.folder / "docs" / "prices.md").read_text().startswith("# All ")
    assert not (fork.folder / "docs" / "costs.md").exists()


def test_a_file_that_one_side_renames_and_the_other_deletes_is_there(
    fork: Repository, upstream: Repository
) -> None:
    (fork.folder / "templates" / "Dockerfile").unlink()
    (fork.folder / "docs" / "costs.md").rename(fork.folder / "docs" / "prices.md")
    fork.commit("ours")
    (upstream.folder / "templates" / "Dockerfile").rename(upstream.folder / "templates" / "Containerfile")
    (upstream.folder / "docs" / "costs.md").unlink()
    upstream.commit("the kit's")
    assert "merged" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", "TO=main")
    assert (fork.folder / "templates" / "Containerfile").exists()
    assert (fork.folder / "docs" / "prices.md").exists()


def test_a_conflict_in_a_file_that_the_kit_renames_is_left_to_the_fork(
    fork: Repository, upstream: Repository
) -> None:
    for each in (fork, upstream):
        each.edit("templates/Dockerfile", "ARG", f"ARG {each.folder.name}\nARG")
    fork.commit("ours")
    (upstream.folder / "templates" / "Dockerfile").rename(upstream.folder / "templates" / "Containerfile")
    upstream.commit("the kit's")
    output = fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", "TO=main", fails=True)
    assert "templates/Containerfile" in output


def test_a_hook_that_refuses_the_merge_leaves_a_next_step(fork: Repository, upstream: Repository) -> None:
    hook = fork.folder / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho ruff failed >&2\nexit 1\n")
    hook.chmod(0o755)
    output = fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True)
    assert "ruff failed" in output
    assert "Next: fix it, then git commit -a, and make test. To give up" in output


def test_what_is_not_committed_is_not_merged_over(fork: Repository, upstream: Repository) -> None:
    fork.edit("README.md", "anvils", "hammers")
    assert "commit them first" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True)


def test_a_merge_on_no_branch_is_said(fork: Repository, upstream: Repository) -> None:
    fork.run("git", "checkout", "--quiet", "--detach")
    assert "git switch -c upgrade gives it one" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}")


def test_a_merge_that_was_interrupted_says_how_it_ends(fork: Repository, upstream: Repository) -> None:
    fork.run("git", "fetch", "--quiet", str(upstream.folder), "main")
    fork.run("git", "merge", "--no-commit", "--no-ff", "--strategy=ours", "FETCH_HEAD")
    output = fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True)
    assert "a merge is still in progress. Next: resolve the conflicts" in output
    assert "make lock, git commit -a, and make test. To give up: git reset --hard" in output


def test_another_repository_called_upstream_stays(fork: Repository, upstream: Repository) -> None:
    fork.run("git", "remote", "add", "upstream", "https://me:secret@git.example.com/company.git")
    output = fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", fails=True)
    assert "the remote upstream is https://git.example.com/company, and not" in output
    assert "git remote rename upstream" in output
    assert "secret" not in output
    assert "company.git" in fork.run("git", "remote", "get-url", "upstream")
    fork.run("git", "remote", "set-url", "upstream", f"{upstream.folder}/")
    assert "merged v0.0.2" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}"), "the same place"


@pytest.mark.parametrize("path", ["notes/new.txt", "notes"])
def test_an_ignored_file_is_not_written_over(fork: Repository, upstream: Repository, path: str) -> None:
    (upstream.folder / "notes").mkdir()
    (upstream.folder / "notes" / "new.txt").write_text("the kit's")
    upstream.commit("notes")
    (fork.folder / ".git" / "info" / "exclude").write_text("notes\n")
    file = fork.folder / path
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    output = fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}", "TO=main", fails=True)
    assert f"the kit has notes/new.txt, and you have an untracked file {path}: move it away" in output
    assert file.read_text() == "mine"
    assert not fork.run("git", "status", "--porcelain")


def test_a_file_that_the_fork_no_longer_tracks_stops_nothing(fork: Repository, upstream: Repository) -> None:
    """It is a conflict only if the kit has changed it."""
    fork.run("git", "rm", "--quiet", "--cached", "SECURITY.md")
    (fork.folder / ".git" / "info" / "exclude").write_text("SECURITY.md\n")
    fork.commit("a policy of our own")
    (fork.folder / "SECURITY.md").write_text("mine")
    assert "merged v0.0.2" in fork.run("make", "upgrade", f"UPSTREAM={upstream.folder}")
    assert (fork.folder / "SECURITY.md").read_text() == "mine"


def test_the_kits_repository_must_be_named_once(fork: Repository) -> None:
    assert "make upgrade UPSTREAM=" in fork.run("make", "upgrade", fails=True)


def test_forking_says_what_is_whose() -> None:
    page = (ROOT / "docs" / "forking.md").read_text("utf-8")
    for name in (*OWN_FILES, *OWN_PLACES):
        assert f"`{name}`" in page, name
