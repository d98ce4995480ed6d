#!/usr/bin/env bash
# Debian's `chromium` does not start where its folder of settings, /etc/chromium.d, is empty or can't be listed (as in a sandbox that
# hides it): the loop over `/etc/chromium.d/*` sources the pattern itself, and `.` of a missing file ends a POSIX shell. With a
# README alone in the folder it starts, and so does the program behind the script, /usr/lib/chromium/chromium.
set -euo pipefail
script=/usr/bin/chromium
[ -x "$script" ] && [ -x /usr/lib/chromium/chromium ] || { echo "skipped: Debian's chromium is not installed here" >&2; exit 0; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/settings"
# The script as it is, but for where its settings are.
sed "s#/etc/chromium\.d#$folder/settings#g" "$script" > "$folder/chromium"
chmod +x "$folder/chromium"
export HOME=$folder

if said=$("$folder/chromium" --version 2>&1); then
  echo "starts with an empty folder: $said" >&2
  exit 1
fi
echo "an empty folder: $said"
grep -q 'cannot open .*/settings/\*' <<< "$said"

touch "$folder/settings/README"
echo "a README alone: $("$folder/chromium" --version 2>&1)"
echo "without the script: $(/usr/lib/chromium/chromium --version 2>&1)"
