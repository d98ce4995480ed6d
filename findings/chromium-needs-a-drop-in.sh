#!/usr/bin/env bash
# Debian's `chromium` (150.0.7871.100-1~deb12u1) does not start where its folder of settings, /etc/chromium.d, is empty or can't be listed, as
# in a sandbox that hides it: the loop over `/etc/chromium.d/*` sources the pattern itself, and `.` of a missing file ends a POSIX shell.
# With any file in the folder, an empty one too, the same script goes on to the program behind it, /usr/lib/chromium/chromium.
# Seen: "cannot open …/settings/*", exit status 2; with a file, that line is gone and the program is started.
set -euo pipefail
version=150.0.7871.100-1~deb12u1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
# Debian 12, amd64 or arm64. Needs the lists of packages (apt-get update).
apt-get download -q "chromium=$version" > download.log 2>&1 || {
  cat download.log >&2
  exit 1
}
dpkg-deb -x chromium_*.deb whole
mkdir settings
# The script as it is, but for where its settings and its program are. The program says that it was started.
printf '#!/bin/sh\necho started\n' > program
chmod +x program
sed -e "s#/etc/chromium\.d#$folder/settings#g" -e "s#^LIBDIR=.*#LIBDIR=$folder#" -e "s#\$LIBDIR/\$APPNAME#$folder/program#g" \
  whole/usr/bin/chromium > script
export HOME=$folder

status=0
said=$(sh script --version 2>&1) || status=$?
echo "chromium $version, an empty folder: $said (exit status $status)"
[ "$status" -eq 2 ]
grep -q 'cannot open .*/settings/\*' <<< "$said"

touch settings/README
said=$(sh script --version 2>&1)
echo "with an empty file: $said"
grep -q started <<< "$said"
