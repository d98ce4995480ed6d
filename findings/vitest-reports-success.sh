#!/usr/bin/env bash
# A run of vitest 4.1.12 (npm) that fails for an error after a test, as from a promise that nobody awaited, ends with status 1, and both files that it writes
# for other programs say that all is well: JUnit counts `failures="0" errors="0"`, and JSON has `"success": true`. The error is in neither of them.
# A bot that reads a report, as one does for numbers of tests, sees a run without a fault. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts vitest@4.1.12 >/dev/null
cat >cart.test.js <<'JS'
import { expect, test } from "vitest";
const save = () => Promise.reject(new Error("not saved"));
test("adds", () => {
  save();
  expect(1 + 1).toBe(2);
});
JS
status=0
NO_COLOR=1 npx vitest run --reporter=default --reporter=junit --outputFile.junit=junit.xml --reporter=json --outputFile.json=report.json >output.txt 2>&1 || status=$?
echo "vitest 4.1.12 ends with $status"
grep -o '<testsuites [^>]*tests="[^>]*errors="[0-9]*"' junit.xml
grep -o '"success":[a-z]*' report.json
[ "$status" -eq 1 ]
grep -q 'Errors  1 error' output.txt
grep -q '<testsuites name="vitest tests" tests="1" failures="0" errors="0"' junit.xml
grep -q '"success":true' report.json
[ "$(grep -c 'not saved' output.txt junit.xml report.json | tr '\n' ' ')" = 'output.txt:2 junit.xml:0 report.json:0 ' ]
