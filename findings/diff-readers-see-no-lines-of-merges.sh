#!/usr/bin/env bash
# Readers of diffs have no line of what Git shows for a merge (`git show`) or in the middle of one (`git diff`): its hunks begin with `@@@` there. For
# unidiff 1.0.1 and whatthepatch 1.0.7 (PyPI), parse-diff 0.12.0 and diff 9.0.0 (npm) the file is changed by no line, and gitdiff-parser 0.3.1 knows no
# file at all. None says that it left something out. diff2html 3.4.56 reads all of them. A summary of a merge that repaired something, or of a
# conflict that is still there, so says that nothing was changed. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
npm install --silent --no-audit --no-fund --ignore-scripts parse-diff@0.12.0 diff@9.0.0 gitdiff-parser@0.3.1 diff2html@3.4.56 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check unidiff==1.0.1 whatthepatch==1.0.7
git init -q -b main repo
commit() { # a content, a message
  echo "$1" >repo/price
  git -C repo add price
  git -C repo commit -q -m "$2"
}
commit 1 First
git -C repo checkout -q -b theirs
commit 2 Theirs
git -C repo checkout -q main
commit 3 Ours
git -C repo merge -q theirs >/dev/null || true
git -C repo diff >conflict.diff
commit 3.5 Merge
git -C repo show --format= >merge.diff
cat >read.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import * as diff from "diff";
import * as diff2html from "diff2html";
import gitdiff from "gitdiff-parser";
import parseDiff from "parse-diff";
for (const [name, all] of [["conflict.diff", 5], ["merge.diff", 3]]) {
  const text = readFileSync(name, "utf8");
  const lines = {
    "diff 9.0.0": diff.parsePatch(text).map((file) => file.hunks.flatMap((hunk) => hunk.lines).length),
    "parse-diff 0.12.0": parseDiff(text).map((file) => file.additions + file.deletions + file.chunks.length),
    "gitdiff-parser 0.3.1": gitdiff.parse(text).map((file) => file.hunks.length),
    "diff2html 3.4.56": diff2html.parse(text).map((file) => file.blocks.flatMap((block) => block.lines).length),
  };
  console.log(name, lines);
  assert.deepEqual(Object.values(lines), [[0], [0], [], [all]]);
}
JS
cat >read.py <<'PYTHON'
from importlib.metadata import version

import unidiff
import whatthepatch

for name in ["conflict.diff", "merge.diff"]:
    with open(name) as file:
        text = file.read()
    assert "@@@ " in text and text.count("\n") > 7, text
    by_unidiff = [(file.path, len(file), file.added + file.removed) for file in unidiff.PatchSet(text)]
    by_whatthepatch = [(file.header.new_path, len(file.changes or [])) for file in whatthepatch.parse_patch(text)]
    print(name, "unidiff", version("unidiff"), by_unidiff, "whatthepatch", version("whatthepatch"), by_whatthepatch)
    assert by_unidiff == [("price", 0, 0)], by_unidiff
    assert by_whatthepatch == [("price", 0)], by_whatthepatch
PYTHON
node read.mjs
venv/bin/python read.py
