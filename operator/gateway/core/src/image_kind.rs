//! Recognizes images by their first bytes, never by a name or by what somebody says of them.

use memchr::memmem;

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

/// The kind of a picture that models don't take, by its bytes. Phones send some under names such as `photo.jpg`.
pub fn foreign_picture(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f' | b's', ..] => Some("AVIF"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'h', b'e', b'i' | b'v', ..]
        | [_, _, _, _, b'f', b't', b'y', b'p', b'm', b'i' | b's', b'f', b'1', ..] => Some("HEIC"),
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Some("TIFF"),
        [b'B', b'M', ..] => Some("BMP"),
        _ => None,
    }
}

/// Bytes of a PNG before its pixels, in which its form is told.
const HEAD: usize = 16 << 10;

/// True for images that can have a transparent background, as far as their form goes.
pub fn may_shine_through(bytes: &[u8]) -> bool {
    match media_type(bytes) {
        // Its colour type, or a colour that stands for nothing.
        Some("image/png") => {
            let head = &bytes[..bytes.len().min(HEAD)];
            let pixels = memmem::find(head, b"IDAT").unwrap_or(head.len());
            matches!(head.get(25), Some(4 | 6)) || memmem::find(&head[..pixels], b"tRNS").is_some()
        }
        Some("image/webp") => {
            let flags = match bytes.get(12..16) {
                Some(b"VP8X") => bytes.get(20),
                Some(b"VP8L") => bytes.get(24),
                _ => None,
            };
            flags.is_some_and(|flags| flags & 0x10 != 0)
        }
        Some("image/gif") => true,
        _ => false,
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
    fn a_transparent_background_is_told_by_the_form() {
        let png = |colors: u8, chunk: &[u8]| {
            let head: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08";
            [head, &[colors, 0, 0, 0, 0, 0, 0, 0][..], chunk, b"IDAT tRNS"].concat()
        };
        assert!(may_shine_through(&png(6, b"")) && may_shine_through(&png(3, b"tRNS")));
        assert!(!may_shine_through(&png(2, b"")), "pixels may have any bytes");
        assert!(!may_shine_through(b"\xff\xd8\xff\xe0"));
        assert!(may_shine_through(b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\x10\0\0\0"));
        assert!(!may_shine_through(b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\x10\0\0\0"));
    }

    #[test]
    fn a_name_makes_no_picture() {
        assert_eq!(media_type(b"\x89PNG\r\n\x1a\n\0"), Some("image/png"));
        assert_eq!(media_type(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        for bytes in [&b"<svg onload=x>"[..], b"<html>", b"", b"PK\x03\x04"] {
            assert_eq!((media_type(bytes), foreign_picture(bytes)), (None, None));
        }
        for (bytes, kind) in [
            (&b"\0\0\0\x18ftypheic\0\0\0\0"[..], "HEIC"),
            (b"\0\0\0\x18ftypmif1", "HEIC"),
            (b"\0\0\0\x1cftypavif", "AVIF"),
            (b"II*\0\x08", "TIFF"),
            (b"BM6\0", "BMP"),
        ] {
            assert_eq!((media_type(bytes), foreign_picture(bytes)), (None, Some(kind)));
        }
        assert_eq!(foreign_picture(b"\0\0\0\x20ftypisom"), None, "a video");
    }
}
