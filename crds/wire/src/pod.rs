//! Names and paths inside an agent pod. Controller (which builds the pod) and agent (which runs in it) both read
//! this.

/// Name of the agent container.
pub const AGENT: &str = "agent";
/// The toolbox container (a native sidecar).
pub const TOOLBOX: &str = "toolbox";
/// Path of the binary in the agent image.
pub const IMAGE_BINARY: &str = "/usr/local/bin/codebutler-agent";
/// Shared emptyDir into which the agent copies its binary, read-only in the toolbox.
pub const BIN_DIR: &str = "/opt/codebutler";
/// Path of that copy of the binary.
pub const SHARED_BINARY: &str = "/opt/codebutler/codebutler-agent";
/// Script with which `sh -c` starts the toolbox once [`SHARED_BINARY`] is there, which is its `$0`. It traps the
/// signal to end while it waits: as the container's first process, no signal ends it by itself.
pub const RUN_TOOLBOX: &str = r#"trap 'exit 143' TERM
until [ -x "$0" ]; do sleep 0.05; done
exec "$0" toolbox "$@""#;
/// Shared emptyDir with the agent ⇄ toolbox socket.
pub const RUN_DIR: &str = "/run/codebutler";
/// The Unix socket on which the toolbox waits for its one connection.
pub const SOCKET: &str = "/run/codebutler/toolbox.sock";
/// The volume's `agent/` part, in the agent container only: transcripts and marks.
pub const STATE_DIR: &str = "/var/lib/codebutler";
/// The volume's `work/` part, in the toolbox container only.
pub const WORK_DIR: &str = "/work";
/// The Git worktree inside [`WORK_DIR`].
pub const TREE_DIR: &str = "/work/tree";
/// The projected token, in the agent container only.
pub const TOKEN_FILE: &str = "/var/run/secrets/codebutler/token";
/// The gateway's CA bundle, in the agent container only.
pub const CA_FILE: &str = "/var/run/codebutler-ca/ca.crt";
/// Address on the pod's loopback at which the relay listens.
pub const RELAY: &str = "127.0.0.1:8417";

/// The container with a server of `spec.mcpServers`, in the server's own image.
pub const SERVER: &str = "server";
/// The container that connects a server to the gateway.
pub const BRIDGE: &str = "bridge";
/// The init container that puts the binary into [`BIN_DIR`].
pub const INSTALL: &str = "install";
/// The Unix socket between the two.
pub const SERVER_SOCKET: &str = "/run/codebutler/mcp.sock";
/// `HOME` of a server, a folder of its own.
pub const SERVER_HOME: &str = "/home/mcp";
/// The worktree in the pod of a server that may read it.
pub const SERVER_TREE: &str = "/workspace";
