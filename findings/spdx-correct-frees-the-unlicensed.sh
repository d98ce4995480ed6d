#!/usr/bin/env bash
# The usual corrector of license names for JavaScript (npm spdx-correct 3.2.0) makes open licenses of their opposite, since its last resort looks for a few
# letters anywhere in the words. `UNLICENSED`, by which npm marks a package that nobody may use, becomes the Unlicense, which gives it to the
# public. `Commercial, limited` and `Summit proprietary` become MIT, for "mit" is in "limited" and in "Summit", and a Commons Clause behind MIT
# is gone. An inventory of licenses then allows what is forbidden. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts spdx-correct@3.2.0 >/dev/null
cat >correct.cjs <<'JS'
const assert = require("node:assert");
const correct = require("spdx-correct");
const words = ["UNLICENSED", "Commercial, limited", "Summit proprietary", "MIT with Commons Clause", "SEE LICENSE IN TERMS"];
const names = Object.fromEntries(words.map((word) => [word, correct(word)]));
console.log(`spdx-correct ${require("spdx-correct/package.json").version}`, names);
assert.deepEqual(Object.values(names), ["Unlicense", "MIT", "MIT", "MIT", null]);
JS
node correct.cjs
