//! Images that a role has made: what is asked of a model, and the files that it becomes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NanoUsd;

/// Maximum number of images of one call.
pub const MOST_IMAGES: u8 = 4;
/// Most images that one call changes or takes parts from.
pub const MOST_SOURCES: usize = 4;
/// Largest image that is sent to a model, in bytes.
pub const MAX_SOURCE: usize = 4 * 1024 * 1024;
/// Largest image that is taken from a model, in bytes.
pub const MAX_IMAGE: usize = 12 * 1024 * 1024;
/// Longest description of an image, in characters.
pub const MAX_IMAGE_PROMPT: usize = 4_000;

/// Aspect ratio of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // they say it
pub enum ImageSize {
    #[default]
    Square,
    Landscape,
    Portrait,
}

impl ImageSize {
    /// The one whose shape is most like that of a picture.
    #[must_use]
    pub fn nearest(width: u32, height: u32) -> Self {
        // Half-way, as ratios go, between a square and three to two.
        let is_longer = |one: u32, other: u32| u64::from(one) * 10_000 > u64::from(other) * 12_247;
        if is_longer(width, height) {
            Self::Landscape
        } else if is_longer(height, width) {
            Self::Portrait
        } else {
            Self::Square
        }
    }
}

/// Quality of an image, and with it its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // they say it
pub enum ImageQuality {
    Low,
    #[default]
    Medium,
    High,
}

/// Request to make images and post them in the conversation. People are asked before the first one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrawImages {
    /// Idempotency key: the same key is the same call, which is paid for once. At most 64 characters of
    /// `[A-Za-z0-9_.:-]`.
    pub key: String,
    /// True if the request may have arrived before: images of this key are looked for, and none are made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Description of the images, or of the change to them.
    pub prompt: String,
    /// Number of images: 1 to [`MOST_IMAGES`].
    pub count: u8,
    /// Aspect ratio of the images.
    #[serde(default)]
    pub size: ImageSize,
    /// Width and height of an image whose shape is kept as well as a model can, where no form was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sides: Option<(u32, u32)>,
    /// Quality of each image.
    #[serde(default)]
    pub quality: ImageQuality,
    /// True for a transparent background.
    #[serde(default)]
    pub transparent: bool,
    /// Images that are changed, in base64: the first one is, the others are there to look at. None: new ones are
    /// made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// A PNG in base64, transparent where the first source is to be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<String>,
    /// The part of the first source that is to be changed, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<String>,
}

/// Images that are in the conversation now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrawnImages {
    /// Images in their order, the first one first.
    pub images: Vec<DrawnImage>,
    /// Cost of the images; absent where it is not known any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<NanoUsd>,
    /// A sentence about what is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An image in the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrawnImage {
    /// Slack's id of the image file.
    pub id: String,
    /// File name there, with an extension by what its bytes are.
    pub name: String,
}

/// Asks whether a chosen image may be committed at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceImage {
    /// Relative to the root of the repository.
    pub path: String,
    /// Name of the image, for people.
    pub image: String,
}

/// Reply that permits placing the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagePlaced {}
