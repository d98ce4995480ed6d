#!/usr/bin/env bash
# npm isomorphic-git 1.44.19 stages the files of a submodule as the repository's own (`add` of "."), beside the entry of the submodule, and leaves an index
# that Git refuses: the next `git commit` of whatever was added ends in "You have both vendor and vendor/lib". Its own `commit` succeeds, without those
# files, and its `statusMatrix` names neither the submodule nor what was changed in it. `git add .` stages neither, unless the submodule
# has another commit. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
npm install --silent --no-audit --no-fund --ignore-scripts isomorphic-git@1.44.19 >/dev/null
git init -q -b main library
echo 1 >library/lib
git -C library add lib
git -C library commit -q -m Library
git init -q -b main repo
git -C repo -c protocol.file.allow=always submodule --quiet add ../library vendor
echo 1 >repo/price
git -C repo add price
git -C repo commit -q -m First
echo 2 >repo/price
echo 2 >repo/vendor/lib
git -C repo add .
test "$(git -C repo diff --cached --name-only)" = price
git -C repo reset -q
cat >add.mjs <<'JS'
import assert from "node:assert";
import fs from "node:fs";
import git from "isomorphic-git";
const here = { fs, dir: "repo" };
await git.add({ ...here, filepath: "." });
const names = (await git.statusMatrix(here)).map(([name]) => name);
console.log("isomorphic-git 1.44.19, listFiles:", await git.listFiles(here), "statusMatrix:", names);
assert.deepEqual(await git.listFiles(here), [".gitmodules", "price", "vendor", "vendor/lib"]);
assert.deepEqual(names, [".gitmodules", "price"]);
await git.commit({ ...here, message: "Second", author: { name: "a", email: "a@example.org" } });
JS
node add.mjs
git -C repo ls-tree -r --name-only HEAD | tee tree
diff - tree <<'TREE'
.gitmodules
price
vendor
TREE
echo 3 >repo/price
git -C repo add price
git -C repo commit -q -m Third 2>said && exit 1
cat said
grep -q 'You have both vendor and vendor/lib' said
