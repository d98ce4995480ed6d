#!/bin/sh
# libgit2 (through pygit2) knows nothing of what `git merge --autostash` has set aside. A merge that stopped at a conflict
# and is committed by libgit2, with `state_cleanup()` after it, looks ended: `git status` is clean and `git stash list` is
# empty, but the work that was not committed is in no file. `.git/MERGE_AUTOSTASH` still names it, and the next
# `git commit`, of anything, puts it into the worktree. `git commit` itself puts it back when it ends the merge.
# Prints what both do; exits with 1 if one of them does something else.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q pygit2==1.18.2
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org

# A merge in conflict, resolved in the worktree; `notes` was changed before and not committed.
begin() {
  git init -q -b main "$1"
  cd "$1"
  echo 1 >price
  echo old >notes
  git add -A
  git commit -qm First
  git checkout -qb side
  echo 2 >price
  git commit -qam Side
  git checkout -q main
  echo 3 >price
  git commit -qam Main
  echo mine >notes
  git merge -q --autostash side >/dev/null 2>&1 && exit 1
  echo 5 >price
  git add price
}

begin "$dir/git"
git commit -qm Merge 2>/dev/null
echo "git $(git --version | cut -d' ' -f3) ends the merge: notes say $(cat notes)"
[ "$(cat notes)" = mine ]

begin "$dir/libgit2"
"$dir/venv/bin/python" - <<'PYTHON'
import pygit2

repo = pygit2.Repository(".")
who = pygit2.Signature("a", "a@example.org")
parents = [repo.head.target, repo.lookup_reference("MERGE_HEAD").target]
repo.create_commit("HEAD", who, who, "Merge", repo.index.write_tree(), parents)
repo.state_cleanup()
print(f"libgit2 {pygit2.LIBGIT2_VERSION} ends the merge")
PYTHON
left=$(cat .git/MERGE_AUTOSTASH)
echo "  git status: [$(git status --porcelain)], git stash list: [$(git stash list)], notes say $(cat notes), MERGE_AUTOSTASH names a $(git cat-file -t "$left")"
[ -z "$(git status --porcelain)$(git stash list)" ] && [ "$(cat notes)" = old ]
echo 6 >price
git commit -qam Price 2>/dev/null
echo "  after a later commit of price alone: notes say $(cat notes)"
[ "$(cat notes)" = mine ] && [ ! -e .git/MERGE_AUTOSTASH ]
