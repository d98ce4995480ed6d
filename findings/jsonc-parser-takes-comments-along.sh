#!/usr/bin/env bash
# The editor of JSON with comments that VS Code's settings and a tsconfig.json are changed with (npm jsonc-parser 3.3.1, `modify` and `applyEdits`) takes all between
# an entry and the one before it along when it removes the entry: the comment behind the entry before, which said something of that one, is gone. With the
# last entry, its own comment stays behind and belongs to the entry before. No value is wrong. npm comment-json 5.0.0 keeps
# each comment at its entry. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts jsonc-parser@3.3.1 comment-json@5.0.0 >/dev/null
cat >remove.cjs <<'JS'
const assert = require("node:assert");
const { applyEdits, modify } = require("jsonc-parser");
const { parse, stringify } = require("comment-json");
const text = `{
  "strict": true, // never off: see the audit
  "allowJs": true,
  "target": "es2024" // the oldest Node.js of customers
}`;
const edited = (key) => applyEdits(text, modify(text, [key], undefined, { formattingOptions: { insertSpaces: true, tabSize: 2 } }));
const other = (key) => {
  const object = parse(text);
  delete object[key];
  return stringify(object, null, 2);
};
for (const key of ["allowJs", "target"]) console.log(`jsonc-parser without ${key}\n${edited(key)}\ncomment-json\n${other(key)}`);
assert.equal(edited("allowJs"), '{\n  "strict": true,\n  "target": "es2024" // the oldest Node.js of customers\n}');
assert.equal(edited("target"), '{\n  "strict": true, // never off: see the audit\n  "allowJs": true // the oldest Node.js of customers\n}');
assert.ok(other("allowJs").includes("// never off: see the audit"));
assert.ok(!other("target").includes("customers"));
JS
node remove.cjs
