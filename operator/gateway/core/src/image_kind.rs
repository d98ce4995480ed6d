//! What an image is: told by its first bytes, never by its name or by what somebody says of it.

/// Types of images that models take, and that people are shown.
pub const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The media type of an image. Nothing of another kind.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some(IMAGE_TYPES[0]),
        [0xff, 0xd8, 0xff, ..] => Some(IMAGE_TYPES[1]),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(IMAGE_TYPES[2]),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(IMAGE_TYPES[3]),
        _ => None,
    }
}

/// True for names of images that models make, and of the icon that is made of one.
pub fn is_image_path(path: &str) -> bool {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| {
        matches!(&*extension, "png" | "jpg" | "jpeg" | "webp" | "gif" | "ico")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_the_end_of_their_names() {
        for path in ["public/logo.png", "favicon.ICO", "a.b/c.webp"] {
            assert!(is_image_path(path), "{path}");
        }
        for path in ["favicon.ico.sh", "png", "public/logo.svg", "a.png/index.html"] {
            assert!(!is_image_path(path), "{path}");
        }
    }

    #[test]
    fn a_name_makes_no_picture() {
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\n\0"), Some("image/png"));
        assert_eq!(media_type(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        for bytes in [&b"<svg onload=x>"[..], b"<html>", b"", b"PK\x03\x04"] {
            assert_eq!(media_type(bytes), None);
        }
    }
}
