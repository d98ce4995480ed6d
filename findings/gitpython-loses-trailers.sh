#!/usr/bin/env bash
# A commit whose message has a Markdown rule above its trailers has none for GitPython (`Commit.trailers_list`), though `git log --format=%(trailers)`
# shows them: it asks `git interpret-trailers --parse`, which takes a line `---` for the beginning of a patch, unless told by `--no-divider` that
# the message is that of a commit. `git format-patch | git am` drops such trailers, too. Exits non-zero if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check GitPython==3.2.1
git init -q -b main "$folder/from"
cd "$folder/from"
git commit -q --allow-empty -m Empty
echo 1 >price
git add price
git commit -q -m 'Set the price

---

It was 0.

Reviewed-by: Ana'
git init -q -b main "$folder/to"
git format-patch -q -1 --stdout | git -C "$folder/to" am -q
show() { git "$@" -1 --format='%(trailers:only,unfold)' | xargs; }

log=$(show log)
parsed=$(git log -1 --format=%B | git interpret-trailers --parse)
whole=$(git log -1 --format=%B | git interpret-trailers --parse --no-divider)
python=$("$folder/venv/bin/python" -c 'import git; print(git.Repo(".").head.commit.trailers_list)')
mailed=$(show -C "$folder/to" log)
echo "git $(git --version | cut -d' ' -f3): log [$log], interpret-trailers [$parsed], --no-divider [$whole], after format-patch and am [$mailed]"
echo "GitPython 3.2.1: $python"
[ "$log|$parsed|$whole|$mailed|$python" = "Reviewed-by: Ana||Reviewed-by: Ana||[]" ]
