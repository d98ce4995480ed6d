#!/usr/bin/env bash
# semantic-release's reader of commits (npm @semantic-release/commit-analyzer 13.0.1 with its defaults) sees no commit worth a release in
# `feat!: …`, and only a fix in a footer `BREAKING-CHANGE:`, though Conventional Commits 1.0.0 has both mean a new major version. A sample of code in the
# message that shows such a footer, four blanks deep, does make one. With the preset `conventionalcommits` the first two are as the specification says.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @semantic-release/commit-analyzer@13.0.1 conventional-changelog-conventionalcommits@9.1.0 \
  >/dev/null
cat >read.mjs <<'JS'
import assert from "node:assert";
import { analyzeCommits } from "@semantic-release/commit-analyzer";
const messages = {
  plain: "feat: list carts",
  footer: "feat: list carts\n\nBREAKING CHANGE: an array",
  mark: "feat!: list carts",
  scope: "feat(api)!: list carts",
  hyphen: "fix: list carts\n\nBREAKING-CHANGE: an array",
  sample: "fix: find footers\n\nAs in:\n\n    BREAKING CHANGE: an array\n\nThey were left out.",
};
const released = async (options) => {
  const found = {};
  for (const [name, message] of Object.entries(messages))
    found[name] = await analyzeCommits(options, { commits: [{ message, hash: "1" }], logger: { log() {} }, cwd: process.cwd() });
  return found;
};
const [defaults, preset] = [await released({}), await released({ preset: "conventionalcommits" })];
console.log("commit-analyzer 13.0.1:", { defaults, preset });
assert.deepEqual(defaults, { plain: "minor", footer: "major", mark: null, scope: null, hyphen: "patch", sample: "major" });
assert.deepEqual([preset.mark, preset.scope, preset.hyphen], ["major", "major", "major"]);
JS
node read.mjs
