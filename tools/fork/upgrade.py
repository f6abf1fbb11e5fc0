"""make upgrade: merges a release of the kit into a fork.

    make upgrade                              the newest release
    make upgrade TO=v0.3.0                    this tag, branch or commit of the kit
    make upgrade UPSTREAM=https://…/kit.git   names the kit's repository, the first time

The fork's own files stay as they are (tools/fork/owned.py). Lock files are replaced with the kit's, and then
locked again with the fork's packages. Every other conflict is listed, and left to you.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from a2a_lambda.errors import ConfigurationError
from tools.agents.stages import deploy_command
from tools.checks import lab
from tools.command import reports_errors
from tools.fork.owned import LOCKS, TEMPLATE, TEMPLATE_PART, is_own

REMOTE = "upstream"

TAGS = "refs/upstream/tags"
"""Where the kit's tags are kept. The fork may have tags of the same names."""

RELEASE_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")

UNRELATED = """this repository and the kit's have no common history, as after GitHub's "Use this template",
or after sam init. Join them once: find the release that your repository was made from, or the commit if you
copied a branch, run this with its commit, and then make upgrade again. With a later commit than that, git
would take the changes up to it as undone in your repository, and never merge them:

  git merge --allow-unrelated-histories -s ours <commit>{releases}"""

FINISH = (
    "Next: resolve the conflicts, if there are any, and git add them; then make lock, git commit -a, and make"
    " test."
)

GIVE_UP = "To give up: git reset --hard, which discards every change since the merge began"
"""Everything was committed before. `git merge --abort` refuses once a lock is written anew."""

MAX_CONFLICTS = 127
"""Highest exit status with which `git merge-file` counts conflicts. A higher one is an error."""

NO_REPOSITORY = """this folder is not a git repository of its own, as after sam init, and make upgrade merges
releases by git. Make it one, then run make upgrade again:

  git init && git add --all && git commit --message "The kit, as it came\""""


SHALLOW = """this copy of the repository lacks its history, which says where the fork began. Fetch it, then
run make upgrade again:

  git fetch --unshallow"""

NO_COMMIT = """this repository has no commit yet. Make one, then run make upgrade again:

  git add --all && git commit --message "The kit, as it came\""""


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    _check_repository()
    _fetch(environ.get("UPSTREAM", ""))
    target = environ.get("TO") or _newest_release()
    if RELEASE_TAG.fullmatch(f"v{target}"):
        target = f"v{target}"
    commit = _commit_of(target)
    base = _run("git", "merge-base", "HEAD", commit).stdout.strip()
    if not base and git("rev-parse", "--is-shallow-repository") == "true":
        raise ConfigurationError(SHALLOW)
    if not base:
        lines = [f"\n  {name}  {commit}" for name, commit in sorted(_releases().items())]
        listing = f"\n\nThe releases:\n{''.join(lines)}" if lines else ""
        raise ConfigurationError(UNRELATED.format(releases=listing))
    if base == commit:
        print(f"this fork already contains {target}")
        return 0
    head = git("rev-parse", "HEAD")
    _merge(base, head, commit)
    if conflicts := sorted(_paths("diff", "--name-only", "--diff-filter=U")):
        names = [os.fsencode(path).decode(errors="replace") for path in conflicts]
        print("These files of the kit were changed in the fork, too:", *names, sep="\n  ")
        print(f"\n{FINISH}\n{GIVE_UP}")
        return 1
    lock()
    try:
        git("commit", "--quiet", "--all", "--no-edit", "--message", f"Merge {target} of the A2A Lambda Kit")
    except ConfigurationError as error:  # a hook of the fork
        raise ConfigurationError(
            f"{error}\n\nNext: fix it, then git commit -a, and make test. {GIVE_UP}"
        ) from None
    print(f"merged {target}. CHANGELOG.md says what is new.")
    if _run("git", "symbolic-ref", "--quiet", "HEAD").returncode:
        print("HEAD is detached, so the merge is on no branch: git switch -c upgrade gives it one.")
    print(f"\nNext: make test, then {deploy_command()}")
    return 0


def _check_repository() -> None:
    """Raises ConfigurationError if nothing can be merged into this checkout as it is."""
    if shutil.which("git") is None:
        raise ConfigurationError("make upgrade needs git: install it")
    top = _run("git", "rev-parse", "--show-toplevel")
    if top.returncode and Path(".git").exists():  # git refuses it, such as one of another user
        raise ConfigurationError(top.stderr.strip())
    if top.returncode or not Path(top.stdout.strip()).samefile(Path()):
        raise ConfigurationError(NO_REPOSITORY)
    if _run("git", "rev-parse", "--quiet", "--verify", "HEAD").returncode:
        raise ConfigurationError(NO_COMMIT)
    if not _run("git", "rev-parse", "--quiet", "--verify", "MERGE_HEAD").returncode:
        raise ConfigurationError(
            f"a merge is still in progress. {FINISH} To give up: git reset --hard, which discards every"
            " change that is not committed"
        )
    if git("ls-files", "--unmerged"):
        raise ConfigurationError(
            "there are conflicts: resolve them, and finish what git began, as git status explains"
        )
    _restore_lock()
    if git("status", "--porcelain", "--untracked-files=no"):
        raise ConfigurationError("there are changes that are not committed: commit them first, or git stash")


def _restore_lock() -> None:
    """Undo what make has written to uv.lock if only the package index differs; the merge locks again."""
    path = Path("uv.lock")
    if git("diff", "--name-only", "HEAD") == path.name and path.exists():
        index = re.compile(r'((?:registry|url) = ")https?://(?:[^"]*/)?(?:simple)?')
        texts = path.read_text("utf-8").strip(), git("show", f"HEAD:{path.name}")
        if len({index.sub(r"\1", text) for text in texts}) == 1:
            git("checkout", "--quiet", "HEAD", "--", path.name)


def _merge(base: str, head: str, commit: str) -> None:
    """Merge without a commit; see `settle`. Raises ConfigurationError: then nothing has changed."""
    # Git would write over a file that the fork ignores. It says itself what is in the way of one that the
    # fork tracks.
    own_files, new_files = _files(head), _paths("diff", "--name-only", base, commit) & _files(commit)
    for path in sorted(new_files - own_files):
        places = [Path(path), *Path(path).parents]
        files = [place for place in places if os.path.lexists(place) and not place.is_dir()]
        if files and str(files[0]) not in own_files:
            raise ConfigurationError(
                f"the kit has {path}, and you have an untracked file {files[0]}: move it away first"
            )
    # Without it, git moves a new file of the fork along if the kit renamed the folder around it.
    merge = _run("git", "-c", "merge.directoryRenames=false", "merge", "--no-commit", "--no-ff", commit)
    if merge.returncode and not git("ls-files", "--unmerged"):
        raise ConfigurationError(merge.stderr.strip() or merge.stdout.strip())
    try:
        settle(base, head, commit)
    except BaseException:
        _run("git", "reset", "--quiet", "--hard")
        raise


def settle(base: str, head: str, commit: str) -> None:
    """Give each file whose owner is certain its owner's content, whatever the merge made of it.

    base: the common ancestor. head: the fork. commit: the kit.
    """
    bases, forks, kits = _files(base), _files(head), _files(commit)
    if TEMPLATE in bases & forks & kits:
        _keep_own_part(base, head, commit)
    _take(head, {path for path in forks if is_own(path)})
    _remove({path for path in kits - forks if is_own(path)})
    # A file that is new in the kit. Git may have merged the fork's example into it, if the kit moved that. A
    # file of the kit that one side has renamed, and the other one still has, is not new: git merges it.
    new_in_kit = kits - forks - bases - _renamed_paths(base, commit, forks)
    _take(commit, {path for path in new_in_kit if not is_own(path)})
    _take(commit, {path for path in kits if any(fnmatchcase(path, lock) for lock in LOCKS)})
    # A file of the fork that the kit has never had.
    _take(head, forks - bases - kits - _renamed_paths(base, head, kits))
    # A fork may delete the laboratory, and does not get it back. One that is older than it gets it.
    laboratory = f"{lab.FOLDER}/"
    is_in_base, is_in_fork = (any(path.startswith(laboratory) for path in paths) for paths in (bases, forks))
    if is_in_base and not is_in_fork:
        _remove({path for path in kits if path.startswith(laboratory)})


def _keep_own_part(base: str, head: str, commit: str) -> None:
    """Keep the fork's part of the template as it is. If git could not merge the template, merge the kit's
    part alone.

    base: the common ancestor. head: the fork. commit: the kit.
    """
    texts = [git("show", f"{each}:{TEMPLATE}") + "\n" for each in (head, base, commit)]
    own_part = TEMPLATE_PART.search(texts[0])
    if own_part is None or not all(map(TEMPLATE_PART.search, texts)):
        return  # without the marks, no one knows whose a line is

    def with_own_part(text: str) -> str:
        return TEMPLATE_PART.sub(lambda _: own_part[0], text)

    if TEMPLATE not in _paths("diff", "--name-only", "--diff-filter=U"):
        merged = Path(TEMPLATE).read_text("utf-8")
        Path(TEMPLATE).write_text(with_own_part(merged), "utf-8", newline="\n")
        git("add", TEMPLATE)
        return
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder, name)) for name in ("yours", "base", "the kit's")]
        for path, text in zip(paths, texts, strict=True):
            Path(path).write_text(with_own_part(text), "utf-8", newline="\n")
        merge = _run("git", "merge-file", "-p", "-L", "yours", "-L", "base", "-L", "the kit's", *paths)
    if merge.returncode > MAX_CONFLICTS:  # it failed: what git has made of the file stays
        return
    Path(TEMPLATE).write_text(merge.stdout, "utf-8", newline="\n")
    if not merge.returncode:
        git("add", TEMPLATE)


def lock() -> None:
    """Lock with the merged kit's code, in a process of its own. Raises ConfigurationError."""
    try:
        process = _run(sys.executable, "-m", "tools.a2a", "lock")
    except KeyboardInterrupt:
        raise ConfigurationError(f"interrupted: the merge is not committed. {FINISH} {GIVE_UP}") from None
    if process.returncode:
        raise ConfigurationError(
            f"the packages could not be locked:\n{process.stderr.strip()}\n\n"
            f"Next: fix it; then make lock, git commit -a, and make test. {GIVE_UP}"
        )


def _take(commit: str, paths: Collection[str]) -> None:
    if paths:
        git("checkout", "--quiet", commit, "--", *sorted(paths))


def _remove(paths: Collection[str]) -> None:
    if files := sorted(set(paths) & _paths("ls-files")):
        git("rm", "--quiet", "-f", "--", *files)


def _files(commit: str) -> set[str]:
    return _paths("ls-tree", "-r", "--name-only", commit)


def _renamed_paths(base: str, commit: str, others: Collection[str]) -> set[str]:
    """New paths of the kit's files that were renamed between two commits.

    others: files of the other side. One that lacks the old path has nothing to merge.
    """
    options = ("-z", "-l0", "--find-renames", "--diff-filter=R", "--name-status")
    listed = git("diff", *options, base, commit).split("\0")[:-1]
    pairs = zip(listed[1::3], listed[2::3], strict=True)  # after the status of each
    return {new_path for old_path, new_path in pairs if old_path in others and not is_own(old_path)}


def _paths(command: str, *options: str) -> set[str]:
    """Paths that git lists, as they are: without -z, it quotes those of other scripts."""
    return set(git(command, "-z", *options).split("\0")) - {""}


def _fetch(url: str) -> None:
    """Fetch the kit's branches and tags."""
    remotes = git("remote").split()
    if not url and REMOTE not in remotes:
        raise ConfigurationError(
            "where is the kit's repository? Name it once: make upgrade UPSTREAM=https://…/kit.git"
        )
    other = _run("git", "config", "--get", f"remote.{REMOTE}.url").stdout.strip()
    if url and REMOTE in remotes and _place_of(other) != _place_of(url):
        raise ConfigurationError(
            f"the remote {REMOTE} is {_place_of(other)}, and not {_place_of(url)}. If the kit has moved, run"
            f" git remote set-url {REMOTE} <its new URL>. If that remote is not the kit, run git remote"
            f" rename {REMOTE} <another name>"
        )
    branches, tags = f"+refs/heads/*:refs/remotes/{REMOTE}/*", f"+refs/tags/*:{TAGS}/*"
    git("fetch", "--quiet", "--no-tags", "--prune", url or REMOTE, branches, tags)
    if REMOTE not in remotes:  # the URL answers
        git("remote", "add", REMOTE, url)


def _place_of(url: str) -> str:
    """A repository's URL without the user, and in one spelling of its end."""
    return re.sub(r"//[^/]*@", "//", url.partition("?")[0]).rstrip("/").removesuffix(".git")


def _releases() -> dict[str, str]:
    """Names of the kit's releases, such as v0.2.0, and their commits: its tags, and the commits of its main
    branch that give pyproject.toml a version which CHANGELOG.md has, too. So a copy of the kit without tags
    has releases."""
    releases: dict[str, str] = {}
    for line in git("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", TAGS).splitlines():
        name, *commits = line.removeprefix(f"{TAGS}/").split()
        releases[name] = commits[-1]  # of an annotated tag, the commit that it names
    head = _run("git", "ls-remote", "--symref", REMOTE, "HEAD").stdout
    branch = match[1] if (match := re.search(r"ref: refs/heads/(\S+)", head)) else "main"
    changes = _run(
        *("git", "log", "--first-parent", "--format=%H", r"-G^version = "),
        *(f"refs/remotes/{REMOTE}/{branch}", "--", "pyproject.toml"),
    )
    for commit in set(changes.stdout.split()) - set(releases.values()):
        version = re.search(r'(?m)^version = "(.+)"', git("show", f"{commit}:pyproject.toml"))
        changelog = _run("git", "show", f"{commit}:CHANGELOG.md").stdout
        if version and re.search(rf"(?m)^## {re.escape(version[1])}(\s|$)", changelog):
            releases.setdefault(f"v{version[1]}", commit)
    return {name: commit for name, commit in releases.items() if RELEASE_TAG.fullmatch(name)}


def _newest_release() -> str:
    """Raises ConfigurationError if the kit has no release."""
    releases = _releases()
    if not releases:
        raise ConfigurationError(
            "the kit's repository has no release: name a branch or a commit, such as TO=main"
        )
    return max(releases, key=_numbers_of)


def _numbers_of(release: str) -> list[int]:
    return [int(number) for number in release.removeprefix("v").split(".")]


def _commit_of(name: str) -> str:
    for candidate in (f"{TAGS}/{name}", f"refs/remotes/{REMOTE}/{name}", _releases().get(name, name)):
        process = _run("git", "rev-parse", "--quiet", "--verify", f"{candidate}^{{commit}}")
        if not process.returncode:
            return process.stdout.strip()
    releases = ", ".join(sorted(_releases(), key=_numbers_of)) or "none"
    raise ConfigurationError(
        f"the kit's repository has no release, tag, branch or commit {name!r}. Releases: {releases}"
    )


def git(*arguments: str) -> str:
    """Output of git. Raises ConfigurationError."""
    process = _run("git", *arguments)
    if process.returncode:
        raise ConfigurationError(f"git {arguments[0]}: {process.stderr.strip() or 'failed'}")
    return process.stdout.strip()


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    # A file's name may be bytes that are no UTF-8, and must be the same bytes when git gets it back.
    return subprocess.run(
        command, capture_output=True, check=False, encoding="utf-8", errors="surrogateescape"
    )


if __name__ == "__main__":
    sys.exit(main())
