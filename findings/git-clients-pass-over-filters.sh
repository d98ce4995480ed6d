#!/usr/bin/env bash
# Where a repository has Git store something else than what lies in the worktree (a filter in .gitattributes: Git LFS, or nbstripout, which takes
# results out of notebooks), three clients of Git commit the file as it lies: GitPython 3.2.1 (`index.add`, though it runs Git for most else), libgit2
# (pygit2 1.18.2) and npm isomorphic-git 1.44.19. dulwich 1.2.21 (`porcelain.add`) runs the filter as Git does. The same three disagree
# about line ends (`text`), which libgit2 alone of them heeds. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
npm install --silent --no-audit --no-fund --ignore-scripts isomorphic-git@1.44.19 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check GitPython==3.2.1 dulwich==1.2.21 pygit2==1.18.2
cat >add.mjs <<'JS'
import fs from "node:fs";
import git from "isomorphic-git";
await git.add({ fs, dir: process.argv[2], filepath: ["notes", "lines"] });
JS
cat >add.py <<'PYTHON'
import os
import subprocess

import git
import pygit2
from dulwich import porcelain

NAMES = ["notes", "lines"]


def by_libgit2(place):
    index = pygit2.Repository(place).index
    for name in NAMES:
        index.add(name)
    index.write()


CLIENTS = {
    "git": lambda place: subprocess.run(["git", "-C", place, "add", *NAMES], check=True, stderr=subprocess.DEVNULL),
    "dulwich": lambda place: porcelain.add(place, [os.path.abspath(f"{place}/{name}") for name in NAMES]),
    "GitPython": lambda place: git.Repo(place).index.add(NAMES),
    "libgit2": by_libgit2,
    "isomorphic-git": lambda place: subprocess.run(["node", "add.mjs", place], check=True),
}


def run(place, *arguments):
    return subprocess.run(["git", "-C", place, *arguments], check=True, capture_output=True).stdout


def stored(client):
    run(".", "init", "-q", client)
    run(client, "config", "filter.pointer.clean", "tr a-z A-Z")
    for name, content in [(".gitattributes", b"notes filter=pointer\nlines text\n"), ("notes", b"large\n"), ("lines", b"a\r\n")]:
        with open(f"{client}/{name}", "wb") as file:
            file.write(content)
    CLIENTS[client](client)
    found = [run(client, "cat-file", "blob", f":{name}") for name in NAMES]
    print(client, found)
    return found


assert stored("git") == [b"LARGE\n", b"a\n"]
assert stored("dulwich") == [b"LARGE\n", b"a\n"]
assert stored("GitPython") == [b"large\n", b"a\r\n"]
assert stored("libgit2") == [b"large\n", b"a\n"]
assert stored("isomorphic-git") == [b"large\n", b"a\r\n"]
PYTHON
venv/bin/python add.py
