//! Pages before and after a change: pictures that a role has taken of what it built.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most views of one page that are shown at once: two widths, light and dark.
pub const MAX_VIEWS: usize = 4;
/// Most bytes of all pictures of one request.
pub const MAX_COMPARED: usize = 12 * 1024 * 1024;
/// Longest path of a page, in bytes.
pub const MAX_PAGE: usize = 160;

/// The width that a page is shown at.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // they say it
pub enum PageWidth {
    Phone,
    Desktop,
}

/// The colours that a page is asked for.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // they say it
pub enum PageColors {
    Light,
    Dark,
}

impl PageWidth {
    /// Name in sentences and in names of files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phone => "phone",
            Self::Desktop => "desktop",
        }
    }
}

impl PageColors {
    /// Name in sentences and in names of files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// Shows people a page before and after a change: in the conversation, on its page and in the pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShowComparison {
    /// Idempotency key: the same key is the same message. At most 64 characters of `[A-Za-z0-9_.:-]`.
    pub key: String,
    /// Path and query of the page, such as `/cart?empty=1`; at most [`MAX_PAGE`] bytes.
    pub page: String,
    /// 1 to [`MAX_VIEWS`], each once.
    pub views: Vec<ComparedView>,
}

/// A page at one width, in one set of colours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedView {
    /// Width of the page in the picture.
    pub width: PageWidth,
    /// Colour scheme of the page.
    pub colors: PageColors,
    /// A PNG in base64, from before the change. Absent: the page is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// A PNG in base64, with the change.
    pub after: String,
}

impl ComparedView {
    /// The view's width and colours in words, such as `phone, dark`.
    #[must_use]
    pub fn describe(&self) -> String {
        describe_view(self.width, self.colors)
    }
}

/// A view in words, such as `phone, dark`.
#[must_use]
pub fn describe_view(width: PageWidth, colors: PageColors) -> String {
    format!("{}, {}", width.name(), colors.name())
}

/// Reply that says that people see the comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparisonShown {
    /// Sentences about places that do not show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}
