//! Pictures of before and after a change, as far as they are on the Git host.

use codebutler_wire::{PageColors, PageWidth};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most views of a Thread that its pull request shows.
pub const MOST_VIEWS: usize = 12;

/// Pictures in a Thread's pull request: files of a commit that no branch leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadPictures {
    /// Number of comparisons that the conversation has been shown.
    #[serde(default)]
    pub shown: u32,
    /// Key of the newest of them: a repetition is not another one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    pub key: String,
    /// The commit with the files. None: nothing was pushed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub commit: Option<String>,
    /// Pictures that were pushed, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 12))]
    pub views: Vec<PushedView>,
}

/// A page at one width, in one set of colours, before and after the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushedView {
    /// Path and query of the page.
    #[schemars(length(min = 1, max = 200))]
    pub page: String,
    /// Width of the page in the picture.
    pub width: PageWidth,
    /// Colour scheme of the page.
    pub colors: PageColors,
    /// Git's id of the picture from before. Absent: the page is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub before: Option<String>,
    /// Git's id of the picture with the change.
    #[schemars(length(max = 64))]
    pub after: String,
}
