//! Detection of a picture's format: by its first bytes, never by its name.

use super::ToolError;

/// The media type of a picture that models take, by its first bytes.
pub(super) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The type of an image, if it is what the name of a file says.
///
/// # Errors
/// With the endings that fit.
pub(super) fn check_ending(bytes: &[u8], path: &str) -> Result<(), ToolError> {
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let endings: &[&str] = match media_type(bytes) {
        Some("image/png") => &["png"],
        Some("image/jpeg") => &["jpg", "jpeg"],
        Some("image/gif") => &["gif"],
        Some("image/webp") => &["webp"],
        _ => {
            return Err(ToolError::refused("the image is none, whatever its name says".to_owned()));
        }
    };
    if ending.is_some_and(|ending| endings.contains(&ending.as_str())) {
        return Ok(());
    }
    Err(ToolError::refused(format!(
        "the image's bytes are of another type than `{path}` says: choose a path that ends in .{}",
        endings.join(" or .")
    )))
}
