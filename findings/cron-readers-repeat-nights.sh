#!/usr/bin/env bash
# `30 2 * * *` in the night that has 02:30 twice: croniter 7.0.0 (PyPI) names both, an hour apart, so that a nightly job runs twice; cronsim 2.8 (PyPI) and
# npm cron-parser 5.10.6 name the first alone, as Debian's cron(8) describes it. In the night without 02:30, croniter and cronsim name 03:00, cron-parser
# 03:30. All were given the same zone (Europe/Berlin). Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts cron-parser@5.10.6 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check croniter==7.0.0 cronsim==2.8 tzdata==2026.6
cat >nights.py <<'PYTHON'
from datetime import datetime, timezone
from importlib.metadata import version
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

EXPRESSION, ZONE = "30 2 * * *", ZoneInfo("Europe/Berlin")


def utc(times):
    return [next(times).astimezone(timezone.utc).strftime("%m-%dT%H:%M") for _ in range(2)]


def nights(reader):
    return [utc(reader(datetime(2026, month, day, 12, tzinfo=ZONE))) for month, day in [(10, 24), (3, 28)]]


by_croniter = nights(lambda start: croniter(EXPRESSION, start, ret_type=datetime))
by_cronsim = nights(lambda start: CronSim(EXPRESSION, start))
print("croniter", version("croniter"), by_croniter, "cronsim", version("cronsim"), by_cronsim)
assert by_croniter == [["10-25T00:30", "10-25T01:30"], ["03-29T01:00", "03-30T00:30"]], by_croniter
assert by_cronsim == [["10-25T00:30", "10-26T01:30"], ["03-29T01:00", "03-30T00:30"]], by_cronsim
PYTHON
cat >nights.mjs <<'JS'
import assert from "node:assert";
import { CronExpressionParser } from "cron-parser";
const nights = ["2026-10-24T12:00:00+02:00", "2026-03-28T12:00:00+01:00"].map((currentDate) => {
  const times = CronExpressionParser.parse("30 2 * * *", { currentDate, tz: "Europe/Berlin" });
  return [times.next(), times.next()].map((time) => time.toISOString().slice(5, 16));
});
console.log("cron-parser 5.10.6", nights);
assert.deepEqual(nights, [["10-25T00:30", "10-26T01:30"], ["03-29T01:30", "03-30T00:30"]]);
JS
venv/bin/python nights.py
node nights.mjs
