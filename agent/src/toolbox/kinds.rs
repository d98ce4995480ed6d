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

/// Name of a file that is neither text nor shown, by its first bytes, so that a role knows what to ask for.
pub(super) fn binary_name(bytes: &[u8]) -> &'static str {
    match bytes {
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', ..] => "an AVIF picture",
        [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i' | b'v', ..]
        | [_, _, _, _, b'f', b't', b'y', b'p', b'm', b'i' | b's', b'f', b'1', ..] => {
            "a HEIC picture"
        }
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "a video or recording (MP4)",
        [0x1a, 0x45, 0xdf, 0xa3, ..] => "a video or recording (WebM or Matroska)",
        [b'R', b'I', b'F', b'F', ..] => "a video or recording (RIFF)",
        [b'O', b'g', b'g', b'S', ..] | [b'I', b'D', b'3', ..] => "a recording",
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => "a TIFF picture",
        [0x7f, b'E', b'L', b'F', ..] => "a program (ELF)",
        _ if bytes.starts_with(b"SQLite format 3\0") => "a SQLite database",
        _ => "a binary file",
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
            return Err(ToolError::refused(
                "this is not an image, whatever its name says".to_owned(),
            ));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_phones_send_is_called_by_its_name() {
        for (bytes, name) in [
            (&b"\0\0\0\x18ftypheic\0\0\0\0"[..], "a HEIC picture"),
            (b"\0\0\0\x1cftypavif", "an AVIF picture"),
            (b"\0\0\0\x14ftypqt  ", "a video or recording (MP4)"),
            (b"\x1a\x45\xdf\xa3\x01", "a video or recording (WebM or Matroska)"),
            (b"OggS\0", "a recording"),
            (b"SQLite format 3\0", "a SQLite database"),
            (b"\0\x01\0", "a binary file"),
            (b"", "a binary file"),
        ] {
            assert_eq!(binary_name(bytes), name);
        }
    }
}
