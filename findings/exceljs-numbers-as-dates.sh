#!/usr/bin/env bash
# The usual reader and writer of Excel files for JavaScript (npm exceljs 4.4.0) takes a number for a date where its format has one of the letters y, m, d,
# h, M, s or b outside of quotes, also where Excel shows or skips it as it is: after `\`, as in millions (`0.0,,\M`), and after `_`, as in the
# comma style for the Bosnian mark (`_-* #,##0.00\ _K_M_-`). 1,500,000 is read as a day in the year 6006. openpyxl reads the same cells as numbers.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts exceljs@4.4.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check openpyxl==3.1.5
cat >write.py <<'PYTHON'
import openpyxl

book = openpyxl.Workbook()
for row, form in enumerate(["0.0", '0.0,,"M"', "0.0,,\\M", "_-* #,##0.00\\ _K_M_-"], 1):
    book.active.cell(row, 1, 1500000).number_format = form
book.save("a.xlsx")
cells = [row[0].value for row in openpyxl.load_workbook("a.xlsx").active]
print("openpyxl", openpyxl.__version__, cells)
assert cells == [1500000] * 4, cells
PYTHON
cat >read.cjs <<'JS'
const { Workbook } = require("exceljs");
const book = new Workbook();
book.xlsx.readFile("a.xlsx").then(() => {
  const cells = [];
  book.worksheets[0].eachRow((row) => cells.push(row.getCell(1).value));
  console.log(`exceljs ${require("exceljs/package.json").version} ${JSON.stringify(cells)}`);
  const day = "6006-11-09T00:00:00.000Z";
  process.exit(JSON.stringify(cells) === JSON.stringify([1500000, 1500000, day, day]) ? 0 : 1);
});
JS
venv/bin/python write.py
node read.cjs
