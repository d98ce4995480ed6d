#!/usr/bin/env bash
# Two readers of Dockerfiles (PyPI dockerfile-parse 2.0.1, npm docker-file-parser 1.0.7) know no here-documents, which Docker has had since 2021: the lines of
# a Python script between `RUN <<END` and `END` are instructions to them, and `from compileall import …` begins a stage whose image is `compileall`. A bot that
# sets `baseimage` with the first one writes `FROM python:3.14-slim` over that line of the script, and the true image stays as it was. npm
# dockerfile-ast 0.7.1 reads the same file as Docker does. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts docker-file-parser@1.0.7 dockerfile-ast@0.7.1 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check dockerfile-parse==2.0.1
cat >Dockerfile <<'DOCKERFILE'
FROM python:3.13-slim
COPY app /app
RUN <<END python3
from compileall import compile_dir
compile_dir("/app")
END
CMD ["python3", "/app/main.py"]
DOCKERFILE
cat >read.cjs <<'JS'
const assert = require("node:assert");
const text = require("node:fs").readFileSync("Dockerfile", "utf8");
const one = require("docker-file-parser").parse(text).map(({ name }) => name);
const other = require("dockerfile-ast").DockerfileParser.parse(text).getInstructions().map((line) => line.getInstruction());
console.log("docker-file-parser", one, "dockerfile-ast", other);
assert.deepEqual(one, ["FROM", "COPY", "RUN", "FROM", 'COMPILE_DIR("/APP")', "END", "CMD"]);
assert.deepEqual(other, ["FROM", "COPY", "RUN", "CMD"]);
JS
node read.cjs
venv/bin/python - <<'PYTHON'
from importlib.metadata import version

from dockerfile_parse import DockerfileParser

file = DockerfileParser("Dockerfile")
before = file.parent_images
file.baseimage = "python:3.14-slim"
lines = open("Dockerfile").read().splitlines()
print("dockerfile-parse", version("dockerfile-parse"), before, lines)
assert before == ["python:3.13-slim", "compileall"], before
assert lines[0] == "FROM python:3.13-slim" and lines[2:5] == ["RUN <<END python3", "FROM python:3.14-slim", 'compile_dir("/app")'], lines
PYTHON
