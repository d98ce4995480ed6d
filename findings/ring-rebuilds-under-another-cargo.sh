#!/usr/bin/env bash
# The build script of ring (crates.io 0.17.14) asks cargo to run it again when variables such as CARGO_PKG_NAME and CARGO_MANIFEST_DIR change. Cargo
# compares them with its own environment, not with what it hands to the build script. A program that `cargo run` has started has them set for its own
# package: a `cargo build` that it starts builds ring, and all that depends on it, anew, and so does the next build from a shell.
# Without these variables the inner build has nothing to do.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset CARGO_PKG_NAME CARGO_MANIFEST_DIR
cargo init --quiet --name finding --vcs none
cat >>Cargo.toml <<'TOML'
ring = "=0.17.14"
TOML
built() { cargo build 2>&1 | grep -c 'Compiling ring' || true; }

cargo build --quiet
again=$(built)
inner=$(CARGO_PKG_NAME=start CARGO_MANIFEST_DIR=/start built)
after=$(built)
echo "ring 0.17.14, $(cargo --version): compiled again by a second build: $again, by a build within another package's program: $inner, by the next one: $after"
[ "$again $inner $after" = "0 1 1" ]
