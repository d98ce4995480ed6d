#!/usr/bin/env bash
# The patch id that libgit2 computes (git_diff_patchid) holds nothing of a binary file's content and no blanks: two edits of one
# picture have the same id, and so have two that indent a line differently. `git patch-id` tells the pictures apart, and
# with `--verbatim` the blanks, too. Who looks for "the same change" by it takes a second edit for one that was made before.
set -euo pipefail
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" --quiet --disable-pip-version-check install pygit2==1.18.2
cat > "$home/ids.py" <<'PYTHON'
import subprocess
import sys

import pygit2

place = sys.argv[1]
repo = pygit2.init_repository(place)
who = pygit2.Signature("A", "a@example.org", 1, 0)


def commit(files, parents):
    tree = repo.TreeBuilder()
    for name, content in files.items():
        tree.insert(name, repo.create_blob(content), pygit2.GIT_FILEMODE_BLOB)
    return repo.create_commit(None, who, who, "change\n", tree.write(), parents)


def ids(name, before, contents):
    base = commit({name: before}, [])
    after = [commit({name: content}, [base]) for content in contents]
    of_library = [str(repo.diff(str(base), str(one)).patchid) for one in after]

    def of_git(one, *options):
        diff = ["git", "-C", place, "diff-tree", "-p", "--full-index", str(base), str(one)]
        text = subprocess.run(diff, check=True, capture_output=True).stdout
        command = ["git", "-C", place, "patch-id", *options]
        return subprocess.run(command, input=text, check=True, capture_output=True).stdout.split()[0]

    plain = [of_git(one, "--stable") for one in after]
    verbatim = [of_git(one, "--verbatim") for one in after]
    return [len(set(found)) == 1 for found in (of_library, plain, verbatim)]


print("libgit2", pygit2.LIBGIT2_VERSION)
for what, name, before, contents in [
    ("picture", "a.bin", b"\0one", [b"\0two", b"\0three"]),
    ("blanks", "a.txt", b"if x:\n  y\n", [b"if x:\n    y\n", b"if x:\n\ty\n"]),
]:
    library, plain, verbatim = ids(name, before, contents)
    print(f"{what}: same id in libgit2 {library}, git patch-id {plain}, --verbatim {verbatim}")
PYTHON
"$home/venv/bin/python" "$home/ids.py" "$home/repo" | tee "$home/seen"
diff "$home/seen" - << 'SEEN'
libgit2 1.9.1
picture: same id in libgit2 True, git patch-id False, --verbatim False
blanks: same id in libgit2 True, git patch-id True, --verbatim False
SEEN
