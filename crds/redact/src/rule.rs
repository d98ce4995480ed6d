//! Redaction rules of a Repo, besides the built-in patterns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pattern of this Repo's own to mask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedactionRule {
    /// Name that stands in place of what was masked: `[redacted:<name>]`.
    #[schemars(regex(pattern = r"^[a-z0-9-]{1,32}$"))]
    pub name: String,
    /// A regular expression without look-around or back-references.
    #[schemars(length(min = 3, max = 1024))]
    pub pattern: String,
}
