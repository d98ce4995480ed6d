//! The images of the testbed: what a container sees besides the machine's own `/usr`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use codebutler_crds::names;

use crate::kubelet::LocalImage;

/// The image with the agent binary.
pub const AGENT_IMAGE: &str = "codebutler-agent:testbed";
/// The image in which commands run.
pub const WORKSPACE_IMAGE: &str = "workspace:testbed";

/// The images of agent and workspace; the agent's has `program` in it. The workspace has this machine's
/// Rust toolchain at `/opt/rust`, if there is one.
pub fn build_images(program: &Path) -> BTreeMap<String, LocalImage> {
    let mut workspace = LocalImage::default();
    if let Some(rust) = rust_sysroot() {
        workspace.binds.push((rust, "/opt/rust".to_owned()));
        workspace.path.push("/opt/rust/bin".to_owned());
    }
    let mut agent = LocalImage::default();
    agent.binds.push((program.to_owned(), names::pod::IMAGE_BINARY.to_owned()));
    BTreeMap::from([(AGENT_IMAGE.to_owned(), agent), (WORKSPACE_IMAGE.to_owned(), workspace)])
}

/// Folder of the Rust toolchain (`rustc`, `cargo` and the standard library), without rustup's proxies.
fn rust_sysroot() -> Option<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.join("bin/cargo").exists().then_some(path)
}
