#!/usr/bin/env bash
# A converter of Markdown to Slack's blocks (npm @tryfabric/mack 1.2.1) leaves out what does not fit its idea of a message, and says nothing. A paragraph ends
# after 3,000 characters, and so does a block of code, with the fence that closes it. Of an entry of a list only the first line is left: a list below it,
# a second paragraph and code in it are gone, and so is a list in a quote. Tasks that are done look like those that are not, and a list from 3
# begins at 1. The answer of a model so lacks steps, and reads like a whole one. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts @tryfabric/mack@1.2.1 >/dev/null
cat >convert.cjs <<'JS'
const assert = require("node:assert");
const { markdownToBlocks } = require("@tryfabric/mack");
const shown = async (text) => (await markdownToBlocks(text)).map(({ text }) => text.text).join("\n");
(async () => {
  const long = await shown(`${"word ".repeat(700)}END`);
  const code = await shown(`\`\`\`\n${"x = 1\n".repeat(700)}END\n\`\`\``);
  console.log({ long: long.length, code: code.length, end: code.slice(-10) });
  assert.equal(long.length, 3000);
  assert.ok(!long.includes("END") && !code.includes("END") && !code.endsWith("```"));
  const cases = [
    ["- stop it\n  - first the queue\n\n- start it", "• stop it\n• start it"],
    ["- run this\n\n  ```\n  make\n  ```\n\n  as root\n", "• run this"],
    ["> before:\n>\n> - save it", "before:"],
    ["- [x] tested\n- [ ] released", "• tested\n• released"],
    ["3. deploy\n4. watch", "1. deploy\n2. watch"],
  ];
  for (const [text, expected] of cases) {
    const got = await shown(text);
    console.log(JSON.stringify(text), JSON.stringify(got));
    assert.equal(got, expected);
  }
})();
JS
node convert.cjs
