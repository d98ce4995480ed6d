#!/usr/bin/env bash
# A workbook that counts its days from 1904, as those do that began on a Mac, says so by `date1904`, for which the format allows `1` and `true`. LibreOffice writes
# `true`, and two readers for JavaScript know only `1`: to npm exceljs 4.4.0 and read-excel-file 9.3.17 each date is four years and a day too early, in
# files that someone opened in LibreOffice and saved. Nothing is said. PyPI openpyxl 3.1.5 and python-calamine 0.9.1 read both alike.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts exceljs@4.4.0 read-excel-file@9.3.17 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check openpyxl==3.1.5 python-calamine==0.9.1
cat >write.py <<'PYTHON'
import datetime
import zipfile

import openpyxl
import python_calamine
from openpyxl.utils.datetime import CALENDAR_MAC_1904

book = openpyxl.Workbook()
book.epoch = CALENDAR_MAC_1904
book.active.append([datetime.date(2026, 3, 2)])
book.save("1.xlsx")
with zipfile.ZipFile("1.xlsx") as plain, zipfile.ZipFile("true.xlsx", "w") as changed:
    for name in plain.namelist():
        text = plain.read(name)
        if name == "xl/workbook.xml":
            assert b'date1904="1"' in text, text
            text = text.replace(b'date1904="1"', b'date1904="true"')
        changed.writestr(name, text)
for name in ("1.xlsx", "true.xlsx"):
    read = openpyxl.load_workbook(name).active["A1"].value.date()
    other = python_calamine.CalamineWorkbook.from_path(name).get_sheet_by_index(0).to_python()[0][0]
    print(name, "openpyxl", read, "python-calamine", other)
    assert read == other == datetime.date(2026, 3, 2), (read, other)
PYTHON
venv/bin/python write.py
cat >read.mjs <<'JS'
import assert from "node:assert";
import ExcelJS from "exceljs";
import readExcelFile from "read-excel-file/node";
const day = (date) => date.toISOString().slice(0, 10);
const dates = {};
for (const name of ["1.xlsx", "true.xlsx"]) {
  const book = new ExcelJS.Workbook();
  await book.xlsx.readFile(name);
  const [{ data }] = await readExcelFile(name);
  dates[name] = [day(book.worksheets[0].getCell("A1").value), day(data[0][0])];
}
console.log("exceljs and read-excel-file", dates);
assert.deepEqual(dates, { "1.xlsx": ["2026-03-02", "2026-03-02"], "true.xlsx": ["2022-03-01", "2022-03-01"] });
JS
node read.mjs
