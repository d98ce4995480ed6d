//! Names of Git's smart HTTP protocol.

use http::HeaderName;

pub const FETCH: &str = "git-upload-pack";
pub const PUSH: &str = "git-receive-pack";
pub const PROTOCOL: HeaderName = HeaderName::from_static("git-protocol");
