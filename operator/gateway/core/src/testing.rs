//! The Repo of tests.

use codebutler_crds::Repo;
use serde_json::json;

/// The Repo team/shop, with the required fields alone.
pub(crate) fn repo() -> Repo {
    let repo = json!({
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": {
            "git": {"url": "https://example.com/acme/shop", "credentials": {"name": "git"}},
            "slack": {"channel": "C0123ABCD", "credentials": {"name": "slack"}},
            "model": {"credentials": {"name": "model"}},
            "roles": ["pm"],
        },
    });
    serde_json::from_value(repo).unwrap()
}
