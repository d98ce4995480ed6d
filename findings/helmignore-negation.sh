#!/usr/bin/env bash
# A line `!README.md` in .helmignore does not take README.md back from `*.md` above it, as it would in .gitignore: Helm leaves
# out every file that the pattern does NOT match, Chart.yaml among them, and says that the chart has none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check helm-python-sdk==0.2.2
mkdir -p "$folder/chart/templates"
printf 'apiVersion: v2\nname: chart\nversion: 0.1.0\n' > "$folder/chart/Chart.yaml"
echo '# chart' > "$folder/chart/README.md"
"$folder/venv/bin/python" - "$folder/chart" <<'PYTHON'
import sys

import helm_python as helm


def lint(ignored):
    with open(f"{sys.argv[1]}/.helmignore", "w") as file:
        file.write(ignored)
    return helm.lint(sys.argv[1])["errors"]


plain, negated = lint("*.md\n"), lint("*.md\n!README.md\n")
print(f"*.md: {plain}")
print(f"*.md and !README.md: {negated}")
assert plain == [], plain
assert any("Chart.yaml file is missing" in error for error in negated), negated
PYTHON
