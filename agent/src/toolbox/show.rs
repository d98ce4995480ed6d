//! Pictures as Read shows them to models that see.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::ToolError;
use super::paths::LocatedPath;
use super::pixels::{ShrunkPicture, is_turned, picture_sides, shrink_picture};
use super::protocol::WorktreePicture;

/// Largest picture, in bytes.
const MAX_PICTURE: usize = 3 * 1024 * 1024;
/// Longest side of one that is made smaller, in pixels: models see no more of a larger one.
const SIDE: u32 = 1_568;
/// Longest side that all models take, in pixels: some refuse the whole request for a longer one.
const LONGEST: u32 = 8_000;

/// A picture, the right way up. One that is too large for models is shown smaller.
///
/// # Errors
/// When it is too large and can't be made smaller.
pub(super) fn read_picture(
    at: &LocatedPath,
    media_type: &str,
    bytes: &[u8],
) -> Result<WorktreePicture, ToolError> {
    let (shown, size) = (&at.shown, bytes.len());
    let whole = || WorktreePicture {
        media_type: media_type.to_owned(),
        data: STANDARD.encode(bytes),
        shown: shown.clone(),
        note: String::new(),
        sides: None,
    };
    let fits = size <= MAX_PICTURE;
    let is_long = picture_sides(bytes).is_some_and(|(width, height)| width.max(height) > LONGEST);
    if fits && !is_long && !is_turned(bytes) {
        return Ok(whole());
    }
    let side = if fits { LONGEST } else { SIDE };
    let smaller = match shrink_picture(bytes, side, MAX_PICTURE) {
        Ok(smaller) => smaller,
        Err(_) if fits => return Ok(whole()),
        Err(why) => {
            return Err(ToolError::refused(format!(
                "`{shown}` is a picture of {size} bytes, of which {MAX_PICTURE} can be shown, and it can't be shown \
                 smaller ({why}): you do not see it. Make a PNG or JPEG copy of at most {SIDE} pixels with Bash, such \
                 as with ImageMagick, ffmpeg or Python's Pillow, and Read that"
            )));
        }
    };
    let ShrunkPicture { media_type, bytes, was: (width, height), is: (shown_width, shown_height) } =
        smaller;
    Ok(WorktreePicture {
        media_type: media_type.to_owned(),
        data: STANDARD.encode(bytes),
        shown: shown.clone(),
        note: format!(
            " It is shown at {shown_width} × {shown_height} pixels: the file has {width} × {height} and {size} bytes."
        ),
        sides: None,
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{ImageFormat, Rgb, RgbImage};

    use super::*;
    use crate::toolbox::kinds::media_type;

    fn noise(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let mut seed = 1_u32;
        let image = RgbImage::from_fn(width, height, |_, _| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [a, b, c, _] = seed.to_be_bytes();
            Rgb([a, b, c])
        });
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn a_picture_that_a_camera_has_turned_is_shown_the_right_way_up() {
        let at = LocatedPath { full: "/x".into(), shown: "board.jpg".to_owned() };
        let jpeg = noise(64, 32, ImageFormat::Jpeg);
        // Exif's orientation 6.
        let exif = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let turned = [&jpeg[..2], exif, &jpeg[2..]].concat();
        let picture = read_picture(&at, "image/jpeg", &turned).unwrap();
        let shown = image::load_from_memory(&STANDARD.decode(&picture.data).unwrap()).unwrap();
        assert_eq!((shown.width(), shown.height()), (32, 64));
        let plain = read_picture(&at, "image/jpeg", &jpeg).unwrap();
        assert_eq!(STANDARD.decode(&plain.data).unwrap(), jpeg, "others stay as they are");
        // A model may take a picture that can't be decoded here.
        let picture = read_picture(&at, "image/jpeg", &turned[..60]).unwrap();
        assert_eq!(STANDARD.decode(&picture.data).unwrap(), turned[..60]);
    }

    #[test]
    fn a_long_screenshot_is_shown_within_what_models_take() {
        let at = LocatedPath { full: "/x".into(), shown: "page.png".to_owned() };
        let page = RgbImage::from_pixel(100, 9_000, Rgb([250, 250, 250]));
        let mut bytes = Cursor::new(Vec::new());
        page.write_to(&mut bytes, ImageFormat::Png).unwrap();
        let picture = read_picture(&at, "image/png", bytes.get_ref()).unwrap();
        assert!(
            picture.note.contains("89 × 8000 pixels: the file has 100 × 9000"),
            "{}",
            picture.note
        );
    }

    #[test]
    fn a_picture_that_is_too_large_is_shown_smaller_and_says_so() {
        let at = LocatedPath { full: "/x".into(), shown: "big.png".to_owned() };
        for (kind, format) in [("image/png", ImageFormat::Png), ("image/jpeg", ImageFormat::Jpeg)] {
            let bytes = noise(3_000, 1_500, format);
            assert!(bytes.len() > MAX_PICTURE, "{}", bytes.len());
            let picture = read_picture(&at, kind, &bytes).unwrap();
            let shown = STANDARD.decode(&picture.data).unwrap();
            assert!(shown.len() <= MAX_PICTURE, "{}", shown.len());
            assert_eq!(media_type(&shown), Some(&*picture.media_type));
            assert!(
                picture.note.contains("1568 × 784 pixels: the file has 3000 × 1500"),
                "{}",
                picture.note
            );
        }
        let small = read_picture(&at, "image/png", b"\x89PNG\r\n\x1a\nrest").unwrap();
        assert_eq!(small.note, "");
        let webp = [b"RIFF\0\0\0\0WEBP".as_slice(), &vec![0; MAX_PICTURE]].concat();
        let why = read_picture(&at, "image/webp", &webp).unwrap_err().to_string();
        assert!(why.contains("you do not see it") && why.contains("with Bash"), "{why}");
        let broken = [b"\x89PNG\r\n\x1a\n".as_slice(), &vec![0; MAX_PICTURE]].concat();
        read_picture(&at, "image/png", &broken).unwrap_err();
    }
}
