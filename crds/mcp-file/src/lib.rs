//! `.codebutler/mcp.json` of a repository: the servers that it asks for, and those of them that the Repo allows. All
//! of it is untrusted, and nothing of it is run.

mod choose;
mod clean;
mod file;
mod variables;

pub use choose::{AllowedServer, BeyondServer, ChosenServers, choose_servers, list_beyond};
pub use clean::clean_text;
pub use file::{FileProblem, McpFile, ProblemKind, WantedServer, read_mcp_file};
pub use variables::{MissingVariable, expand_variables, list_variables};

/// Path of the file in a repository.
pub const MCP_FILE: &str = ".codebutler/mcp.json";
