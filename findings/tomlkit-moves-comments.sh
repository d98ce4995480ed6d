#!/usr/bin/env bash
# tomlkit 0.15.2, which keeps comments when it changes a TOML file, has a comment above a table's header belong to what stands before it. A key that
# is added before the first table is put between that comment and its table, so that the comment is one on the new key; a table that is removed takes
# the comment above the next one with it and leaves its own above that one. No value is wrong, and each comment says something else than it did.
# Exits non-zero if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check tomlkit==0.15.2
"$folder/venv/bin/python" - <<'PYTHON'
import tomlkit

text = 'name = "shop"\n\n# Asked for by the auditors.\n[limits]\nrows = 5\n\n# Only for tests.\n[debug]\nport = 1\n'
added, removed = tomlkit.parse(text), tomlkit.parse(text)
added["version"] = "2"
del removed["limits"]
print(f"tomlkit {tomlkit.__version__}, a key added:\n{added.as_string()}\nthe table `limits` removed:\n{removed.as_string()}")
assert '# Asked for by the auditors.\nversion = "2"\n\n[limits]\n' in added.as_string()
assert '# Asked for by the auditors.\n[debug]\n' in removed.as_string()
assert "tests" not in removed.as_string()
PYTHON
