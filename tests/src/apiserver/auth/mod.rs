//! Authentication and authorization of callers.

mod rbac;
pub(super) mod reviews;
mod tokens;

pub(super) use rbac::{RequestAttributes, authorize_user, list_rules, role_rules, rule_allows};
pub(super) use tokens::{BoundToken, TokenMaker};

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The audience of tokens for this server itself, and their issuer.
pub const API_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";

/// An authenticated caller, with name and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ApiUser {
    /// Name, such as `system:serviceaccount:ns:name`.
    pub name: String,
    /// UID, if the caller has one.
    pub uid: String,
    pub groups: Vec<String>,
    /// Further facts, such as the pod that a token is bound to.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl ApiUser {
    /// A user with groups, and the group of all who are authenticated.
    pub(super) fn new(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|&g| g.to_owned()).collect();
        groups.push("system:authenticated".to_owned());
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// A caller without credentials.
    pub(super) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Encodes the user as `UserInfo` of the authentication API.
    pub(super) fn to_json(&self) -> Value {
        let mut user = json!({ "username": self.name, "groups": self.groups });
        if !self.uid.is_empty() {
            user["uid"] = self.uid.clone().into();
        }
        if !self.extra.is_empty() {
            user["extra"] = json!(self.extra);
        }
        user
    }
}
