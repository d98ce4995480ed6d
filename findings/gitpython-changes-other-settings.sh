#!/usr/bin/env bash
# GitPython 3.2.1 and dulwich 1.2.21 (PyPI) change settings of a repository that nobody asked for when they set another one, as an agent does that sets
# `user.email` in a clone: both write the whole file anew. GitPython puts a backslash before each quote and backslash in a value, so that the shell that
# runs `core.sshCommand` or an alias gets other words. dulwich writes a value with `;` without its quotes, and Git takes what follows for a
# comment: the helper of a credential loses its end. Both drop all comments. libgit2 and `git config` change the one line.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check GitPython==3.2.1 dulwich==1.2.21 pygit2==1.18.2
cat >set.py <<'PYTHON'
import subprocess
from importlib.metadata import version

import git
import pygit2
from dulwich.repo import Repo

VALUES = {
    "core.sshCommand": 'ssh -i "/home/ana/my key"',
    "alias.short": '!git log --format="%h %s"',
    "credential.helper": "!f() { echo username=ana; }; f",
    "user.signingKey": "C:\\keys\\ana",
}


def set_by_gitpython(place):
    with git.Repo(place).config_writer() as writer:
        writer.set_value("user", "email", "ana@example.org")


def set_by_dulwich(place):
    config = Repo(place).get_config()
    config.set((b"user",), b"email", b"ana@example.org")
    config.write_to_path()


def set_by_libgit2(place):
    pygit2.Repository(place).config["user.email"] = "ana@example.org"


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.removesuffix("\n")


def changed(name, setter):
    run("git", "init", "-q", name)
    for key, value in VALUES.items():
        run("git", "-C", name, "config", key, value)
    with open(f"{name}/.git/config", "a") as file:
        file.write("# Asked for by the auditors.\n")
    setter(name)
    now = {key: run("git", "-C", name, "config", key) for key in VALUES}
    with open(f"{name}/.git/config") as file:
        comment = "auditors" in file.read()
    other = {key: value for key, value in now.items() if value != VALUES[key]}
    print(f"{name}, the comment is there: {comment}, changed: {other}")
    return comment, other


gitpython = changed(f"GitPython-{version('GitPython')}", set_by_gitpython)
dulwich = changed(f"dulwich-{version('dulwich')}", set_by_dulwich)
libgit2 = changed(f"libgit2-{pygit2.LIBGIT2_VERSION}", set_by_libgit2)
assert gitpython == (
    False,
    {
        "core.sshCommand": 'ssh -i \\"/home/ana/my key\\"',
        "alias.short": '!git log --format=\\"%h %s\\"',
        "user.signingKey": "C:\\\\keys\\\\ana",
    },
), gitpython
assert dulwich == (False, {"credential.helper": "!f() { echo username=ana"}), dulwich
assert libgit2 == (True, {}), libgit2
PYTHON
venv/bin/python set.py
