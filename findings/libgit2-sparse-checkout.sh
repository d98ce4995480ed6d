#!/bin/sh
# libgit2 (through pygit2): `index.add_all()` in a sparse checkout stages the deletion of every file that the sparse
# checkout leaves out, though the index marks each as skip-worktree; `git add --all` stages nothing. And
# `index.write_tree()` writes what was only meant to be added (`git add --intent-to-add`) as an empty file, where
# `git write-tree` leaves it out. Prints what both do; exits with 1 if one of them does something else.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pygit2==1.18.2
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
repo="$dir/repo"
git init -q "$repo"
cd "$repo"
mkdir src docs
echo a >src/a
echo b >docs/b
git add -A
git commit -qm First
git sparse-checkout set --no-sparse-index src
git add --all
echo "git $(git --version | cut -d' ' -f3): git add --all stages: [$(git diff --cached --name-status)]"
[ -z "$(git diff --cached --name-status)" ]
echo later >src/later
git add --intent-to-add src/later
echo "git write-tree has src/later: $(git ls-tree -r --name-only "$(git write-tree)" | grep -c later || true)"
"$dir/venv/bin/python" - "$repo" <<'PYTHON'
import sys
import pygit2

repo = pygit2.Repository(sys.argv[1])
tree = repo[repo.index.write_tree()]
later = tree["src"]["later"] if "later" in tree["src"] else None
print(f"libgit2 {pygit2.LIBGIT2_VERSION}: write_tree has src/later of size {later.size if later else None}")
repo.index.add_all()
print("libgit2: add_all keeps docs/b:", "docs/b" in repo.index)
sys.exit(0 if later is not None and later.size == 0 and "docs/b" not in repo.index else 1)
PYTHON
