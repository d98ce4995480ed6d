#!/usr/bin/env bash
# With the feature `preserve_order`, which is there to keep the order of keys, `Map::remove` of serde_json does not keep it:
# the last entry takes the place of the removed one. Who drops `title` from a JSON schema shows a model its arguments with the
# last one first. `shift_remove` keeps the order.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/src"
cat > "$folder/Cargo.toml" <<'TOML'
[package]
name = "reorders"
version = "0.0.0"
edition = "2021"

[dependencies]
serde_json = { version = "=1.0.154", features = ["preserve_order"] }

[workspace]
TOML
cat > "$folder/src/main.rs" <<'RUST'
use serde_json::{Map, Value};

fn main() {
    let text = r#"{"title":"T","path":1,"old":2,"new":3}"#;
    let keys = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>().join(" ");
    let mut removed: Map<String, Value> = serde_json::from_str(text).unwrap();
    let mut shifted = removed.clone();
    removed.remove("title");
    shifted.shift_remove("title");
    println!("serde_json 1.0.154 remove:       {}", keys(&removed));
    println!("serde_json 1.0.154 shift_remove: {}", keys(&shifted));
    assert_eq!(keys(&removed), "new path old");
    assert_eq!(keys(&shifted), "path old new");
}
RUST
cargo run --quiet --manifest-path "$folder/Cargo.toml" --target-dir "$folder/target"
