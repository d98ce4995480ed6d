//! Facts about a server of `spec.mcpServers` that controller and gateway have to agree on.

use codebutler_crds::mcp::McpServerSpec;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// Words in the message on a server that gets no pod because its Thread or Repo has as many as it
/// may.
pub const NO_ROOM: &str = "servers have pods here already";

/// A hash of everything that its pod is made from, and of where its Secrets may be sent. The
/// gateway names the one that it has checked, and the controller starts no other.
pub fn fingerprint_server(server: &McpServerSpec) -> String {
    let mut parts = json!([
        server.name,
        server.image,
        server.command,
        server.env,
        server.egress,
        server.worktree,
        server.resources,
    ]);
    parts.sort_all_objects();
    hex::encode(&Sha256::digest(parts.to_string())[..12])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_destination_is_another_server_and_another_role_is_not() {
        let read = |spec: serde_json::Value| {
            fingerprint_server(&serde_json::from_value::<McpServerSpec>(spec).unwrap())
        };
        let usual = json!({"name": "db", "image": "acme/db", "command": ["db"]});
        let with = |key: &str, value: serde_json::Value| {
            let mut spec = usual.clone();
            spec[key] = value;
            read(spec)
        };
        let before = read(usual.clone());
        assert_eq!(with("roles", json!(["coder"])), before);
        assert_eq!(with("idleSeconds", json!(20)), before);
        for (key, value) in [
            ("egress", json!(["evil.example"])),
            ("image", json!("evil/db")),
            ("command", json!(["db", "--send"])),
            ("env", json!([{"name": "K", "secret": {"name": "s", "key": "k"}}])),
            ("worktree", json!("ReadOnly")),
        ] {
            assert_ne!(with(key, value), before, "{key}");
        }
    }
}
