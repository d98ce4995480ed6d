#!/usr/bin/env bash
# A recording in WAV that was written into a pipe, as by ffmpeg or by a service that streams speech, has the greatest number there is (0xFFFFFFFF) for its sizes,
# since nobody could go back and fill them in. Two readers of such files (PyPI mutagen 1.48.1 and tinytag 2.3.2) believe it, though they have the file: two
# seconds last for 37 hours, and whatever is paid or limited by the minute is wrong by as much. npm music-metadata 11.16.1 says two
# seconds. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts music-metadata@11.16.1 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check mutagen==1.48.1 tinytag==2.3.2
cat >measure.mjs <<'JS'
import { parseFile } from "music-metadata";
for (const name of process.argv.slice(2)) console.log((await parseFile(name, { duration: true })).format.duration);
JS
venv/bin/python - <<'PYTHON'
import struct
import subprocess
from importlib.metadata import version

import mutagen
import tinytag

RATE = 16_000
sound = bytes(2 * RATE * 2)  # Two seconds of silence, in samples of two bytes.


def write(name, whole, data):
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16)
    with open(name, "wb") as file:
        file.write(struct.pack("<4sI4s", b"RIFF", whole, b"WAVE") + form + struct.pack("<4sI", b"data", data) + sound)


write("file.wav", 36 + len(sound), len(sound))
write("pipe.wav", 0xFFFFFFFF, 0xFFFFFFFF)
names = ["file.wav", "pipe.wav"]
script = subprocess.run(["node", "measure.mjs", *names], capture_output=True, text=True, check=True).stdout.split()
lengths = {
    f"mutagen {version('mutagen')}": [mutagen.File(name).info.length for name in names],
    f"tinytag {version('tinytag')}": [tinytag.TinyTag.get(name).duration for name in names],
    "music-metadata 11.16.1": [float(length) for length in script],
}
print(lengths)
assert [[round(length / 3600) if length > 2 else length for length in each] for each in lengths.values()] == [[2, 37], [2, 37], [2, 2]]
PYTHON
