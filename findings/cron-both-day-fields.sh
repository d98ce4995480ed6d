#!/usr/bin/env bash
# `0 0 */2 * 1`: two well-known readers of cron take it for two different schedules. cronsim (as Debian's cron) lets a
# field that begins with `*` limit the other one, so that both days have to fit; croniter (as Kubernetes' CronJob) takes
# `*/2` for a limit like any other, so that either day is enough.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check croniter==7.0.0 cronsim==2.8
"$folder/venv/bin/python" - <<'PYTHON'
from datetime import datetime
from importlib.metadata import version

from croniter import croniter
from cronsim import CronSim

start, expression = datetime(2026, 11, 1, 0, 0), "0 0 */2 * 1"


def november(times):
    days = []
    for time in times:
        if time.month != 11:
            return days
        days.append(time.day)


either = november(iter(lambda source=croniter(expression, start): source.get_next(datetime), None))
both = november(CronSim(expression, start))
print(f"croniter {version('croniter')}: {either}")
print(f"cronsim {version('cronsim')}: {both}")
assert both == [9, 23], both
assert set(both) < set(either) and {2, 3, 5, 16, 30} <= set(either), either
PYTHON
