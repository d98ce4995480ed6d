//! `mcp.json` of a repository: the servers that it asks for, and those of them that the Repo allows.

mod choose;
mod file;
mod variables;

pub use choose::{AllowedServer, ChosenServers, choose_servers};
pub use file::{FileProblem, McpFile, ProblemKind, WantedServer, read_mcp_file};
pub use variables::{MissingVariable, expand_variables, list_variables};
