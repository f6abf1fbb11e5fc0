"""make upgrade: merges a release of the kit into a fork.

    make upgrade                              the newest release
    make upgrade TO=v0.3.0                    this tag, branch or commit of the kit
    make upgrade UPSTREAM=https://…/kit.git   names the kit's repository, the first time

What is the fork's own stays as it is (tools/fork/owned.py). Locks become the kit's, and are locked again with
the fork's packages. Every other conflict is listed, and left to you.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase

from a2a_lambda.errors import ConfigurationError
from tools.command import reports_errors
from tools.fork.owned import LOCKS, is_own

REMOTE = "upstream"

RELEASE = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


@reports_errors
def main(environ: Mapping[str, str] = os.environ) -> int:
    if git("status", "--porcelain", "--untracked-files=no"):
        raise ConfigurationError("there are changes that are not committed: commit them first, or git stash")
    _fetch(environ.get("UPSTREAM", ""))
    target = environ.get("TO") or _newest_release()
    commit = _commit_of(target)
    if git("merge-base", "HEAD", commit) == commit:
        print(f"this fork has {target} already")
        return 0
    before = git("rev-parse", "HEAD")
    merged = _run("git", "merge", "--no-commit", "--no-ff", commit)
    if merged.returncode and not git("ls-files", "--unmerged"):
        raise ConfigurationError(merged.stderr.strip() or merged.stdout.strip())
    keep_own_files(before)
    take_locks(commit)
    if conflicts := sorted(set(git("diff", "--name-only", "--diff-filter=U").splitlines())):
        print("These files of the kit were changed in the fork, too:", *conflicts, sep="\n  ")
        print("\nNext: resolve them, then git add them, make lock, git commit -a and make test.")
        print("To give up: git merge --abort")
        return 1
    lock()
    git("commit", "--quiet", "--all", "--no-edit", "--message", f"Merge {target} of the A2A Lambda Kit")
    print(f"merged {target}. CHANGELOG.md says what is new.\n\nNext: make test, then make deploy STAGE=dev")
    return 0


def keep_own_files(before: str) -> None:
    """Make the fork's own files what they were, whatever the merge made of them."""
    had = {path for path in git("ls-tree", "-r", "--name-only", before).splitlines() if is_own(path)}
    has = {path for path in git("ls-files").splitlines() if is_own(path)}
    if gone := sorted(has - had):
        git("rm", "--quiet", "-f", "--", *gone)
    if had:
        git("checkout", "--quiet", before, "--", *sorted(had))


def take_locks(commit: str) -> None:
    """Take the kit's locks. `lock` adds the fork's packages and name."""
    theirs = git("ls-tree", "-r", "--name-only", commit).splitlines()
    locks = [path for path in theirs if any(fnmatchcase(path, lock) for lock in LOCKS)]
    git("checkout", "--quiet", commit, "--", *locks)


def lock() -> None:
    """make lock, of the merged Makefile. Raises ConfigurationError."""
    done = _run("make", "--no-print-directory", "lock")
    if done.returncode:
        raise ConfigurationError(
            f"the packages could not be locked:\n{done.stderr.strip()}\n\n"
            "Next: mend that, then make lock and git commit -a. To give up: git merge --abort"
        )


def _fetch(url: str) -> None:
    remotes = git("remote").split()
    if url:
        git("remote", *(("set-url", REMOTE) if REMOTE in remotes else ("add", REMOTE)), url)
    elif REMOTE not in remotes:
        raise ConfigurationError(
            "where is the kit's repository? Name it once: make upgrade UPSTREAM=https://…/kit.git"
        )
    git("fetch", "--quiet", "--tags", REMOTE)


def _newest_release() -> str:
    """Raises ConfigurationError if the kit has no release."""
    found = [tag for tag in git("tag").split() if RELEASE.fullmatch(tag)]
    if not found:
        raise ConfigurationError("the kit's repository has no release: name a branch or a commit, TO=main")
    return max(found, key=lambda tag: [int(number) for number in tag.removeprefix("v").split(".")])


def _commit_of(name: str) -> str:
    for candidate in (f"refs/tags/{name}", f"refs/remotes/{REMOTE}/{name}", name):
        done = _run("git", "rev-parse", "--quiet", "--verify", f"{candidate}^{{commit}}")
        if not done.returncode:
            return done.stdout.strip()
    raise ConfigurationError(f"the kit's repository has no tag, branch or commit {name!r}")


def git(*arguments: str) -> str:
    """Output of git. Raises ConfigurationError."""
    done = _run("git", *arguments)
    if done.returncode:
        raise ConfigurationError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
