#!/usr/bin/env bash
# Word stores the hyphen that keeps a word or a number on one line (Ctrl+Shift+_) as an element of its own, `w:noBreakHyphen`. Three readers of Word files leave it
# out: PyPI docx2txt 0.9 and docx2python 3.7.1, and npm officeparser 7.8.0. "store at -5 °C" becomes "store at 5 °C", "re-sign" becomes "resign", and
# CVE-2026 is CVE2026. The three also have a sentence twice that was moved while changes were tracked: where it was, too. PyPI python-docx 1.2.0
# has the hyphens, and the sentence once. Nothing is said. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts officeparser@7.8.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check docx2txt==0.9 docx2python==3.7.1 python-docx==1.2.0
cat >write.py <<'PYTHON'
from docx import Document
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

document = Document()


def add(*parts):
    paragraph = document.add_paragraph()._p
    for part in parts:
        text = "<w:noBreakHyphen/>" if part == "-" else f"<w:t xml:space='preserve'>{part}</w:t>"
        paragraph.append(parse_xml(part if part.startswith("<") else f"<w:r {nsdecls('w')}>{text}</w:r>"))


add("store at ", "-", "5 °C, re", "-", "sign for CVE", "-", "2026")
add(f"<w:moveFrom {nsdecls('w')} w:id='1' w:author='Ana'><w:r><w:t>Pay now.</w:t></w:r></w:moveFrom>", "First.")
add(f"<w:moveTo {nsdecls('w')} w:id='2' w:author='Ana'><w:r><w:t>Pay now.</w:t></w:r></w:moveTo>")
document.save("a.docx")
PYTHON
venv/bin/python write.py
cat >read.mjs <<'JS'
import { parseOffice } from "officeparser";
const read = await parseOffice("a.docx");
console.log(typeof read === "string" ? read : read.toText());
JS
node read.mjs >officeparser.txt
venv/bin/python - <<'PYTHON'
import docx
import docx2txt
from docx2python import docx2python

texts = {
    "docx2txt": docx2txt.process("a.docx"),
    "docx2python": docx2python("a.docx").text,
    "officeparser": open("officeparser.txt").read(),
}
for name, text in texts.items():
    lines = [line for line in text.splitlines() if line.strip()]
    print(name, lines)
    assert lines == ["store at 5 °C, resign for CVE2026", "Pay now.First.", "Pay now."], lines
kept = [paragraph.text for paragraph in docx.Document("a.docx").paragraphs]
print("python-docx", kept)
assert kept[0] == "store at -5 °C, re-sign for CVE-2026" and kept[1] == "First.", kept
PYTHON
