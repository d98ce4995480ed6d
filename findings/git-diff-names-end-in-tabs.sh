#!/usr/bin/env bash
# Git ends the lines `---` and `+++` of a diff by a tab where the file's name has a blank. Three well-known readers of diffs take the tab into the name,
# and so name a file that does not exist: diff2html 3.4.56 and gitdiff-parser 0.3.1 (npm), and whatthepatch 1.0.7 (PyPI). parse-diff 0.12.0 and
# diff 9.0.0 (npm) and unidiff 1.0.1 (PyPI) leave it out. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts diff2html@3.4.56 gitdiff-parser@0.3.1 parse-diff@0.12.0 diff@9.0.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check whatthepatch==1.0.7 unidiff==1.0.1
git init -q repo
echo 1 >'repo/price list'
git -C repo add -A
echo 2 >'repo/price list'
git -C repo diff >change.diff
cat >read.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import * as diff from "diff";
import * as diff2html from "diff2html";
import gitdiff from "gitdiff-parser";
import parseDiff from "parse-diff";
const text = readFileSync("change.diff", "utf8");
const names = {
  diff2html: diff2html.parse(text)[0].newName,
  "gitdiff-parser": gitdiff.parse(text)[0].newPath,
  "parse-diff": parseDiff(text)[0].to,
  diff: diff.parsePatch(text)[0].newFileName,
};
console.log(names);
assert.deepEqual(Object.values(names), ["price list\t", "price list\t", "price list", "b/price list"]);
JS
node read.mjs
venv/bin/python - <<'PYTHON'
import unidiff
import whatthepatch

text = open("change.diff").read()
names = {"whatthepatch": next(whatthepatch.parse_patch(text)).header.new_path, "unidiff": unidiff.PatchSet(text)[0].path}
print(names)
assert list(names.values()) == ["price list\t", "price list"], names
PYTHON
