#!/usr/bin/env bash
# An HTTP client for Rust (crates.io reqwest 0.13.5) ends an upload on Linux whose server reads nothing for 30 s, though no timeout was asked for
# and the server is well: its default `tcp_user_timeout` counts also while the peer says that its buffers are full, and answers each probe. Clients
# of Git or curl wait. Seen with 12 MB and a server that waits 40 s before it reads: "Connection timed out" after about 30 s; with
# `.tcp_user_timeout(None)` the same request is answered. Takes a minute and a half. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cargo init --quiet --name finding --vcs none
cat >>Cargo.toml <<'TOML'
reqwest = { version = "=0.13.5", default-features = false }
tokio = { version = "1", features = ["io-util", "macros", "net", "rt", "time"] }
TOML
cat >src/main.rs <<'RUST'
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const BODY: usize = 12_000_000;

async fn serve(listener: tokio::net::TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    tokio::time::sleep(Duration::from_secs(40)).await;
    let (mut read, mut buffer) = (0, vec![0; 1 << 16]);
    while read < BODY {
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => read += count,
            _ => return,
        }
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn upload(client: reqwest::ClientBuilder) -> (Result<u16, String>, u64) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let serving = tokio::spawn(serve(listener));
    let began = Instant::now();
    let sent = client.no_proxy().build().unwrap().post(url).body(vec![0; BODY]).send().await;
    let seconds = began.elapsed().as_secs();
    serving.abort();
    let root = |error: &reqwest::Error| {
        let mut cause: &dyn std::error::Error = error;
        while let Some(below) = cause.source() {
            cause = below;
        }
        cause.to_string()
    };
    (sent.map(|answer| answer.status().as_u16()).map_err(|error| root(&error)), seconds)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let usual = upload(reqwest::Client::builder()).await;
    let patient = upload(reqwest::Client::builder().tcp_user_timeout(None)).await;
    println!("reqwest 0.13.5: {usual:?}; without the timeout: {patient:?}");
    let is_cut = usual.0.is_err_and(|why| why.contains("timed out")) && usual.1 < 40;
    std::process::exit(if is_cut && patient.0 == Ok(200) { 0 } else { 1 });
}
RUST
cargo run --quiet
