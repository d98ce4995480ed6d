//! Names of Git's smart HTTP protocol.

use http::HeaderName;

pub(crate) const FETCH: &str = "git-upload-pack";
pub(crate) const PUSH: &str = "git-receive-pack";
pub(crate) const PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");
