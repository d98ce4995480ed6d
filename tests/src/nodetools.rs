//! Packages of npm for tests: installed once, and kept below `target/`.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::pytools::cache_dir;

/// The official servers of the Model Context Protocol, and the client that comes with them.
pub const MCP_SERVERS: &[&str] = &[
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
    "@modelcontextprotocol/server-sequential-thinking@2026.8.31",
    "@modelcontextprotocol/sdk@1.32.2",
];

/// An error that keeps a test from having Node packages.
#[derive(Debug, thiserror::Error)]
pub enum NodeToolsError {
    /// The machine has no `node` or no `npm`; a test that needs them says so and passes.
    #[error("no node with npm on this machine")]
    NoNode,
    /// The cache can't be written.
    #[error("can't use the cache `{path}`")]
    Cache {
        /// Path of the folder or file in the cache.
        path: PathBuf,
        /// Underlying error of the system.
        #[source]
        source: io::Error,
    },
    /// `npm` failed; the end of its output.
    #[error("`npm install` failed: {0}")]
    Install(String),
}

/// The folder `node_modules` that has these packages (`name@version`), made if there is none yet. No script of
/// a package is run. Blocks while another process makes the same one.
///
/// # Errors
/// `NoNode` where there is neither `node` nor `npm`; others if the network or the disk fails.
pub fn ensure_modules(packages: &[&str]) -> Result<PathBuf, NodeToolsError> {
    for program in ["node", "npm"] {
        let found = Command::new(program).arg("--version").output();
        found.ok().filter(|out| out.status.success()).ok_or(NodeToolsError::NoNode)?;
    }
    let digest = hex::encode(Sha256::digest(packages.join("\n")));
    let cache = cache_dir();
    let folder = cache.join(format!("npm-{}", &digest[..16]));
    let at = |path: PathBuf| move |source| NodeToolsError::Cache { path, source };
    fs::create_dir_all(&folder).map_err(at(folder.clone()))?;
    let lock_path = folder.with_extension("lock");
    let lock = File::create(&lock_path).map_err(at(lock_path.clone()))?;
    lock.lock().map_err(at(lock_path))?;
    let (ready, modules) = (folder.join(".ready"), folder.join("node_modules"));
    if ready.exists() {
        return Ok(modules);
    }
    let _ = writeln!(io::stderr(), "testbed: installing {} with npm", packages.join(" "));
    let install = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
    let output = Command::new("npm").current_dir(&folder).args(install).args(packages).output();
    let output = output.map_err(|error| NodeToolsError::Install(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let end: String = said.lines().take(3).collect::<Vec<_>>().join(" ");
        return Err(NodeToolsError::Install(end));
    }
    fs::write(&ready, packages.join("\n")).map_err(at(ready))?;
    Ok(modules)
}
