#!/usr/bin/env bash
# The reader of server-sent events below the official Rust SDK of MCP (crates.io sse-stream, used by rmcp) answers with an error at a field
# with an unknown name, and at one without a colon; the standard (WHATWG HTML, 9.2.6) says to ignore the first and to take the second for a
# field without a value. rmcp takes the error for the end of the stream, so a proxy or server that adds a field of its own ends every call
# that is answered by events. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cargo init --quiet --name finding --vcs none
cat >>Cargo.toml <<'TOML'
bytes = "=1.12.1"
futures = "=0.3.34"
sse-stream = "=0.2.6"
TOML
cat >src/main.rs <<'RUST'
use futures::{StreamExt, executor::block_on, stream};

fn first(text: &'static str) -> Result<Option<String>, String> {
    let bytes = stream::iter([Ok::<_, std::io::Error>(bytes::Bytes::from(text))]);
    let mut events = sse_stream::SseStream::from_bytes_stream(bytes);
    match block_on(events.next()) {
        Some(Ok(event)) => Ok(event.data),
        Some(Err(error)) => Err(error.to_string()),
        None => Ok(None),
    }
}

fn main() {
    let plain = first("data: x\n\n");
    let unknown = first("trace: 7\ndata: x\n\n");
    let bare = first("data: x\ntrace\n\n");
    println!("sse-stream 0.2.6: plain {plain:?}, unknown field {unknown:?}, field without a colon {bare:?}");
    let is_as_seen = plain == Ok(Some("x".into())) && unknown.is_err() && bare.is_err();
    std::process::exit(if is_as_seen { 0 } else { 1 });
}
RUST
cargo run --quiet
