#!/usr/bin/env bash
# In a report of coverage, lcov 2 may say where a function ends: `FN:3,9,add` instead of `FN:3,add` (geninfo(1)). Two readers take that line number for a part of
# the name. To npm lcov-parse 1.0.0 the function's name is `9`, and it has no count of calls, for that is told of `add`. PyPI lcov_cobertura 2.1.1 writes
# each function twice, `9,add` as one that never ran and `add` as one in line 0: of two functions that both ran, two of four methods in Cobertura's
# form did not. Nothing is said, and the counts of lines are right. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts lcov-parse@1.0.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check lcov_cobertura==2.1.1
report() {
  printf '%s\n' TN: SF:src/cart.c "FN:3,${1}add" "FN:12,${2}pay" FNDA:4,add FNDA:1,pay FNF:2 FNH:2 DA:4,4 DA:13,1 LF:2 LH:2 end_of_record
}
report '' '' >old.info
report 9, 20, >new.info
cat >read.cjs <<'JS'
const assert = require("node:assert");
const { promisify } = require("node:util");
const parse = promisify(require("lcov-parse"));
(async () => {
  const functions = async (name) => (await parse(name))[0].functions.details.map(({ name, hit }) => [name, hit]);
  const [before, now] = [await functions("old.info"), await functions("new.info")];
  console.log("lcov-parse 1.0.0", before, now);
  assert.deepEqual(before, [["add", 4], ["pay", 1]]);
  assert.deepEqual(now, [["9", undefined], ["20", undefined]]);
})();
JS
node read.cjs
venv/bin/python - <<'PYTHON'
from importlib.metadata import version
from xml.etree import ElementTree

from lcov_cobertura import LcovCobertura


def methods(name):
    document = ElementTree.fromstring(LcovCobertura(open(name).read()).convert())
    lines = [(method.get("name"), method.find("lines/line")) for method in document.iter("method")]
    return sorted((name, line.get("number"), line.get("hits")) for name, line in lines)


before, now = methods("old.info"), methods("new.info")
print("lcov_cobertura", version("lcov_cobertura"), before, now)
assert before == [("add", "3", "4"), ("pay", "12", "1")], before
assert now == [("20,pay", "12", "0"), ("9,add", "3", "0"), ("add", "0", "4"), ("pay", "0", "1")], now
PYTHON
