//! The protocol between the kubelet and its helper: JSON over the helper's standard input.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The helper's name: its `argv[0]`, by which the binary dispatches.
pub const HELPER: &str = "codebutler-pause";

/// Variable that makes a container see a kernel without Landlock, as before Linux 5.13.
pub const WITHOUT_LANDLOCK: &str = "TESTBED_WITHOUT_LANDLOCK";

/// `codebutler-pause pod`: the namespaces that the containers of a pod share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodSpec {
    /// Host name inside the pod.
    pub hostname: String,
    /// Addresses on the pod's loopback, besides 127.0.0.1 and `::1`.
    pub addresses: Vec<IpAddr>,
    /// True if the pod shares this machine's network instead of having a loopback of its own.
    pub host_network: bool,
}

/// `codebutler-pause container`: a root, namespaces of its own, one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// Process that holds the pod's namespaces.
    pub pod: i32,
    /// Empty folder on the host to build the root on.
    pub root: PathBuf,
    /// The root file system may not be written to.
    pub read_only_root: bool,
    /// Small files below `/etc`: name and content.
    pub etc: Vec<(String, String)>,
    /// Host paths that belong to the image.
    pub image: Vec<BindMount>,
    /// Bind mounts of the pod's volumes.
    pub mounts: Vec<BindMount>,
    /// Command that the container runs.
    pub process: ProcessSpec,
}

/// `codebutler-pause exec`: one more command in a running container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    /// Process that holds the pod's namespaces.
    pub pod: i32,
    /// Namespaces of the running container.
    pub container: StartedHelper,
    /// Command that is run in the container.
    pub process: ProcessSpec,
}

/// A command as it will be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSpec {
    /// Program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment, as names and values.
    pub env: Vec<(String, String)>,
    /// Working directory; made if the container lacks it.
    pub cwd: String,
    /// User id inside the container.
    pub uid: u32,
    /// Group id inside the container.
    pub gid: u32,
}

/// A bind mount of a host path into a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindMount {
    /// File or folder on the host.
    pub source: PathBuf,
    /// Path below `source` that is mounted instead. Made (a folder) if missing; a symbolic link in
    /// it can't lead out of `source`.
    pub sub_path: Option<String>,
    /// Absolute path inside the container.
    pub target: String,
    /// True if the mount is read-only.
    pub read_only: bool,
}

/// The process and the namespaces that a helper has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartedHelper {
    /// The helper's process: for a pod, the one in its namespaces.
    pub pid: i32,
    /// For a container: the helper's descriptors of its mount, pid and user namespaces. What runs
    /// inside can't be looked at from outside either, except by root.
    pub namespaces: Vec<i32>,
}

/// The helper's answer, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SandboxReply {
    /// The command runs, or the namespaces exist.
    Started(StartedHelper),
    /// Nothing was started; the reason.
    Failed(String),
}

/// Writes one length-prefixed JSON document.
pub fn write_frame(mut to: impl Write, value: &impl Serialize) -> io::Result<()> {
    to.write_all(&frame_json(value)?)
}

/// The bytes of one length-prefixed JSON document.
pub fn frame_json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(value)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend(body);
    Ok(bytes)
}

/// Reads one length-prefixed JSON document.
pub fn read_frame<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let sent = SandboxReply::Failed("no /proc".to_owned());
        let bytes = frame_json(&sent).unwrap();
        assert_eq!(read_frame::<SandboxReply>(&bytes[..]).unwrap(), sent);
        assert!(read_frame::<SandboxReply>(&bytes[..bytes.len() - 1]).is_err());
    }
}
