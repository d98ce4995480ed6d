//! Keys of sessions with servers: a Repo's server has one session for all its Threads, or one for each.

use std::sync::Arc;

use codebutler_crds::Repo;
use codebutler_crds::mcp::{McpScope, McpServerSpec};
use codebutler_gateway_core::thread_key::ThreadKey;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};

/// Key of a session in the pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    pub namespace: String,
    pub repo: String,
    /// Name of the server in `spec.mcpServers`.
    pub server: String,
    /// The Thread, for a server that each Thread has one of.
    pub thread: Option<String>,
}

impl SessionKey {
    /// The key under which the latest list of any of a server's sessions is kept.
    #[must_use]
    pub fn of_all(&self) -> Self {
        Self { thread: None, ..self.clone() }
    }
}

/// A server as a Thread reaches it. Cheap to clone.
#[derive(Clone)]
pub struct ServerPlace {
    /// Key of its session in the pool.
    pub key: SessionKey,
    /// The Thread that asks; none where it is the Repo itself that does.
    pub thread: Option<ThreadKey>,
    /// Repo whose spec has the entry.
    pub repo: Arc<Repo>,
    /// The entry in `spec.mcpServers`.
    pub spec: Arc<McpServerSpec>,
    fingerprint: Arc<str>,
}

impl ServerPlace {
    /// A server of a Repo, for a Thread or for the Repo itself.
    pub fn new(repo: &Arc<Repo>, spec: &McpServerSpec, thread: Option<ThreadKey>) -> Self {
        // A remote server is one for all Threads: it is the same process at the other end.
        let is_shared = spec.url.is_some() || spec.scope == McpScope::Repo;
        let key = SessionKey {
            namespace: repo.namespace().unwrap_or_default(),
            repo: repo.name_any(),
            server: spec.name.clone(),
            thread: thread.as_ref().filter(|_| !is_shared).map(|thread| thread.name.clone()),
        };
        let text = serde_json::to_vec(spec).unwrap_or_default();
        let fingerprint = hex::encode(Sha256::digest(text)).into();
        Self { key, thread, repo: Arc::clone(repo), spec: Arc::new(spec.clone()), fingerprint }
    }

    /// Hash of the entry in the Repo: once it changes, the session has to be opened anew.
    pub fn fingerprint(&self) -> String {
        (*self.fingerprint).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing;

    #[test]
    fn a_thread_shares_remote_servers_and_those_of_the_repo_alone() {
        let repo = Arc::new(testing::repo(&json!({})));
        let place = |spec: serde_json::Value| {
            let spec: McpServerSpec = serde_json::from_value(spec).unwrap();
            let thread = ThreadKey { namespace: "team".into(), name: "shop-1".into() };
            ServerPlace::new(&repo, &spec, Some(thread))
        };
        let thread = |spec| place(spec).key.thread;
        assert_eq!(thread(json!({"name": "a", "url": "https://x"})), None);
        let image = json!({"name": "a", "image": "x", "command": ["y"]});
        assert_eq!(thread(image.clone()), Some("shop-1".to_owned()));
        let shared = json!({"name": "a", "image": "x", "command": ["y"], "scope": "Repo"});
        assert_eq!(thread(shared.clone()), None);
        assert_ne!(place(image).fingerprint(), place(shared).fingerprint());
    }
}
