#!/usr/bin/env bash
# Two tools for JavaScript that follow .gitignore take it without regard to case, also where Git does not. Because of a line `core` (for dumps of a crash)
# isomorphic-git 1.44.19 and globby 16.2.4 (`gitignore: true`) leave out src/Core/, which `git add -A` stages. isomorphic-git's `add` and
# `statusMatrix` say nothing of it, so that a commit lacks a folder of sources and looks whole. The cause is the default of npm `ignore`, on
# which both are built. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_CONFIG_GLOBAL=/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts isomorphic-git@1.44.19 globby@16.2.4 >/dev/null
git init -q repo
mkdir -p repo/src/Core
echo core >repo/.gitignore
echo 'export const price = 1;' >repo/src/Core/price.ts
echo 'export * from "./Core/price";' >repo/src/index.ts
cat >list.mjs <<'JS'
import assert from "node:assert";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { globby } from "globby";
import git from "isomorphic-git";
const listed = () => execFileSync("git", ["-C", "repo", "ls-files"], { encoding: "utf8" }).trim().split("\n");
const here = { fs, dir: "repo" };
const seen = (await git.statusMatrix(here)).map(([name]) => name);
await git.add({ ...here, filepath: "." });
const added = listed();
const globbed = (await globby("**", { cwd: "repo", gitignore: true, dot: true, ignore: [".git"] })).sort();
execFileSync("git", ["-C", "repo", "-c", "core.ignoreCase=false", "add", "-A"]);
const byGit = listed();
console.log("isomorphic-git 1.44.19, statusMatrix:", seen, "add:", added, "globby 16.2.4:", globbed, "git:", byGit);
const without = [".gitignore", "src/index.ts"];
assert.deepEqual(seen, without);
assert.deepEqual(added, without);
assert.deepEqual(globbed, without);
assert.deepEqual(byGit, [".gitignore", "src/Core/price.ts", "src/index.ts"]);
JS
node list.mjs
