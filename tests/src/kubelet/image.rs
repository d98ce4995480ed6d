//! Images: what a container of that name starts with. There is nothing to pull; an image is the
//! host's programs plus a few paths.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The user of an image that names none. Not root: nothing here needs it.
pub(super) const DEFAULT_USER: u32 = 65_532;
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An image that the kubelet knows under the name that pods use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalImage {
    /// Command that runs where the container has none of its own; the container's `args` follow.
    pub entrypoint: Vec<String>,
    /// Variables of the image. `PATH` and `HOME` have defaults.
    pub env: BTreeMap<String, String>,
    /// Host path and the path it has inside, read-only.
    pub binds: Vec<(PathBuf, String)>,
    /// Folders put in front of the default `PATH`.
    pub path: Vec<String>,
    /// User and group where the pod names none.
    pub user: u32,
    /// True if pods with the image share this machine's network, at a loopback address of their own:
    /// what has to reach more than Services can't have a network where there is nothing else.
    pub host_network: bool,
    /// Duration of the image's pull, for each container that starts with it.
    pub pull: Duration,
}

impl Default for LocalImage {
    fn default() -> Self {
        Self {
            entrypoint: Vec::new(),
            env: BTreeMap::new(),
            binds: Vec::new(),
            path: Vec::new(),
            user: DEFAULT_USER,
            host_network: false,
            pull: Duration::ZERO,
        }
    }
}

impl LocalImage {
    /// The variables that a container starts with, before its own.
    pub fn environment(&self, hostname: &str) -> BTreeMap<String, String> {
        let path: Vec<&str> =
            self.path.iter().map(String::as_str).chain(std::iter::once(DEFAULT_PATH)).collect();
        let mut env = BTreeMap::from([
            ("PATH".to_owned(), path.join(":")),
            ("HOSTNAME".to_owned(), hostname.to_owned()),
            ("HOME".to_owned(), if self.user == 0 { "/root" } else { "/" }.to_owned()),
        ]);
        env.extend(self.env.clone());
        env
    }
}
