#!/usr/bin/env bash
# Five converters of web pages to Markdown, as models are shown them, move the cells of a table beside a cell that spans two rows (`rowspan`) into the column before
# theirs: the second row of "Team" says that its region is 20 and its price 900. Neither a gap nor a remark says so. PyPI markdownify 1.2.3, on which
# markitdown is built, and html2text 2025.4.15; npm turndown 7.2.5 with either plugin for tables (turndown-plugin-gfm 1.0.2,
# @joplin/turndown-plugin-gfm 1.0.68), and node-html-markdown 2.0.0. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts turndown@7.2.5 turndown-plugin-gfm@1.0.2 @joplin/turndown-plugin-gfm@1.0.68 node-html-markdown@2.0.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check markdownify==1.2.3 html2text==2025.4.15
cat >page.html <<'HTML'
<table><thead><tr><th>Plan</th><th>Region</th><th>Price</th><th>Limit</th></tr></thead><tbody>
<tr><td rowspan="2">Team</td><td>EU</td><td>10</td><td>500</td></tr>
<tr><td>US</td><td>20</td><td>900</td></tr>
<tr><td>Solo</td><td>EU</td><td>5</td><td>100</td></tr>
</tbody></table>
HTML
cat >convert.mjs <<'JS'
import { readFileSync } from "node:fs";
import joplin from "@joplin/turndown-plugin-gfm";
import { NodeHtmlMarkdown } from "node-html-markdown";
import Turndown from "turndown";
import plain from "turndown-plugin-gfm";
const page = readFileSync("page.html", "utf8");
const turndown = ({ gfm }) => new Turndown().use(gfm).turndown(page);
console.log(JSON.stringify({ "turndown": turndown(plain), "turndown, Joplin": turndown(joplin), "node-html-markdown": NodeHtmlMarkdown.translate(page) }));
JS
node convert.mjs >pages.json
venv/bin/python - <<'PYTHON'
import json

import html2text
import markdownify

page = open("page.html").read()
texts = json.load(open("pages.json")) | {"markdownify": markdownify.markdownify(page), "html2text": html2text.html2text(page)}
for name, text in texts.items():
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if "US" in line]
    print(name, lines)
    (cells,) = lines
    assert [cell for cell in cells if cell] == ["US", "20", "900"] and cells[0] == "US", text
PYTHON
