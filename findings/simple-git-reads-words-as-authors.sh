#!/usr/bin/env bash
# The usual Git client for JavaScript (npm simple-git 4.0.2) tells the fields of `log()` apart by the letter ò between blanks, a word of its own in Yoruba
# ("not") and Venetian ("I have"). A commit "N ò mọ̀" (I don't know) has the subject "N", the refs "mọ̀", no author's name and, for the author's address,
# the name. Nothing is raised, and `git log` shows each field as it is. `log({ splitter })` takes another one. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=Ana GIT_AUTHOR_EMAIL=ana@example.org
export GIT_COMMITTER_NAME=Ana GIT_COMMITTER_EMAIL=ana@example.org
npm install --silent --no-audit --no-fund --ignore-scripts simple-git@4.0.2 >/dev/null
git init -q -b main repo
git -C repo commit -q --allow-empty -m 'Mo mọ̀'
git -C repo commit -q --allow-empty -m 'N ò mọ̀'
cat >read.mjs <<'JS'
import assert from "node:assert";
import { simpleGit } from "simple-git";
const fields = async (options) => {
  const { all } = await simpleGit("repo").log(options);
  return all.map(({ message, refs, body, author_name, author_email }) => [message, refs, body, author_name, author_email]);
};
const [plain, told] = [await fields({}), await fields({ splitter: "\u001f" })];
console.log("simple-git 4.0.2:", plain);
const whole = ["Mo mọ̀", "", "", "Ana", "ana@example.org"];
assert.deepEqual(plain, [["N", "mọ̀", "HEAD -> main", "", "Ana"], whole]);
assert.deepEqual(told, [["N ò mọ̀", "HEAD -> main", "", "Ana", "ana@example.org"], whole]);
JS
node read.mjs
