#!/usr/bin/env bash
# The text of a paragraph, as the most used reader of Word files has it (PyPI python-docx, `Paragraph.text`), silently lacks what stands in a
# smart tag, in a tracked insertion or in a content control, all of which Word shows as ordinary words. Nothing is raised, and what comes
# out reads like a whole sentence: a date or an amount is simply gone. Tools that are built on it lose the same. Exits non-zero if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check python-docx==1.2.0
"$folder/venv/bin/python" - "$folder/a.docx" <<'PY'
import sys
from importlib.metadata import version

import docx
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

run = "<w:r><w:t xml:space='preserve'>{}</w:t></w:r>"
wrapped = {
    "smart tag": "<w:smartTag {ns} w:element='date'>{run}</w:smartTag>",
    "insertion": "<w:ins {ns} w:id='1' w:author='Ana'>{run}</w:ins>",
    "content control": "<w:sdt {ns}><w:sdtContent>{run}</w:sdtContent></w:sdt>",
}
document = docx.Document()
for name, xml in wrapped.items():
    paragraph = document.add_paragraph("due on ")
    paragraph._p.append(parse_xml(xml.format(ns=nsdecls("w"), run=run.format("1 March "))))
    paragraph.add_run("at noon")
document.save(sys.argv[1])

print("python-docx", version("python-docx"))
read = [paragraph.text for paragraph in docx.Document(sys.argv[1]).paragraphs]
for name, text in zip(wrapped, read):
    print(f"{name}: {text!r}")
sys.exit(0 if read == ["due on at noon"] * 3 else 1)
PY
