//! Reference from a Repo to a Secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A Secret in the Repo's namespace. Its annotation `codebutler.dev/hosts` names the hosts that it
/// may be sent to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// Name of a Secret in the Repo's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
