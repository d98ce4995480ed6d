#!/usr/bin/env bash
# Three readers of GitHub's file CODEOWNERS name different owners for the same lines. npm codeowners 5.1.1 takes each word of a remark behind the owners, as
# GitHub's own sample has one, for an owner: `@org/rust`, `#`, `the`, `compiler`, `team`. It and npm codeowners-utils 1.0.2 have `docs/*` own
# docs/a/b.md, too, which GitHub's description rules out, so that they ask another team for a review than GitHub does. PyPI codeowners 0.9.0 gives
# both as GitHub does. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts codeowners@5.1.1 codeowners-utils@1.0.2 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check codeowners==0.9.0
git init -q .
cat >CODEOWNERS <<'OWNERS'
*       @org/all
*.rs    @org/rust # the compiler team
docs/*  @org/docs
OWNERS
cat >own.cjs <<'JS'
const assert = require("node:assert");
const CodeOwners = require("codeowners");
const { loadOwners, matchFile } = require("codeowners-utils");
(async () => {
  const [one, other] = [new CodeOwners("."), await loadOwners(".")];
  const owners = ["a.rs", "docs/a.md", "docs/a/b.md"].map((path) => [one.getOwner(path), matchFile(path, other).owners]);
  console.log("codeowners and codeowners-utils (npm)", JSON.stringify(owners));
  assert.deepEqual(owners, [
    [["@org/rust", "#", "the", "compiler", "team"], ["@org/rust"]],
    [["@org/docs"], ["@org/docs"]],
    [["@org/docs"], ["@org/docs"]],
  ]);
})();
JS
node own.cjs
venv/bin/python - <<'PYTHON'
from codeowners import CodeOwners

owners = CodeOwners(open("CODEOWNERS").read())
seen = [[name for _, name in owners.of(path)] for path in ("a.rs", "docs/a.md", "docs/a/b.md")]
print("codeowners (PyPI)", seen)
assert seen == [["@org/rust"], ["@org/docs"], ["@org/all"]]
PYTHON
