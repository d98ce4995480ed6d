//! The Repo of tests.

use codebutler_crds::Repo;
use serde_json::{Value, json};

/// The Repo team/shop, whose spec has these fields besides the required ones.
pub(crate) fn repo(fields: &Value) -> Repo {
    let mut repo = json!({
        "metadata": {"namespace": "team", "name": "shop"},
        "spec": {
            "git": {"url": "https://example.com/acme/shop", "credentials": {"name": "git"}},
            "slack": {"channel": "C0123ABCD", "credentials": {"name": "slack"}},
            "model": {"credentials": {"name": "model"}},
            "roles": ["pm"],
        },
    });
    let fields = fields.as_object().unwrap().clone();
    repo["spec"].as_object_mut().unwrap().extend(fields);
    serde_json::from_value(repo).unwrap()
}
