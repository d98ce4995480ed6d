#!/usr/bin/env bash
# Two well-known converters of Markdown to what Slack shows change what is said. markdown_to_mrkdwn 0.3.3 (PyPI) also converts in code: `__init__` becomes
# `*init*`, `a*b*c` becomes `a_b_c` and `[a](b)` becomes `<b|a>`, and a comment in a block between `~~~` becomes bold; only blocks between ``` stay
# as they are. slackify-markdown 4.5.0 (npm) writes a task that is done and one that is not alike, and a hard line break as a backslash.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts slackify-markdown@4.5.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check markdown_to_mrkdwn==0.3.3
cat >convert.py <<'PYTHON'
from importlib.metadata import version

from markdown_to_mrkdwn import SlackMarkdownConverter

texts = {
    "`__init__`": "`*init*`",
    "`a*b*c`": "`a_b_c`",
    "`[a](b)`": "`<b|a>`",
    "~~~\n# Build\n~~~": "~~~\n*Build*\n~~~",
    "```\n# Build\n__init__\n```": "```\n# Build\n__init__\n```",
}
written = {text: SlackMarkdownConverter().convert(text) for text in texts}
print("markdown_to_mrkdwn", version("markdown_to_mrkdwn"), written)
assert written == texts
PYTHON
cat >convert.mjs <<'JS'
import assert from "node:assert";
import slackify from "slackify-markdown";
const written = ["- [x] Tests\n- [ ] Pages", "Deploy  \nthen tell"].map((text) => (slackify.slackifyMarkdown ?? slackify)(text));
console.log("slackify-markdown 4.5.0", written);
const [tasks, lines] = written;
assert.match(tasks, /^• +Tests\n• +Pages\n$/);
assert.equal(lines, "Deploy\\\nthen tell\n");
JS
venv/bin/python convert.py
node convert.mjs
