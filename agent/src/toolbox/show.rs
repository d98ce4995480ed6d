//! Pictures as Read shows them to models that see.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::ToolError;
use super::kinds::media_type;
use super::paths::LocatedPath;
use super::pixels::{
    ShrunkPicture, check_pixels, gif_sides, is_turned, picture_sides, shrink_picture,
};
use super::protocol::WorktreePicture;
use crate::animation::first_frame;

/// Largest picture, in bytes.
const MAX_PICTURE: usize = 3 * 1024 * 1024;
/// Longest side of one that is made smaller, in pixels: models see no more of a larger one.
const SIDE: u32 = 1_568;
/// Longest side that providers take, in pixels (some refuse the whole request for a longer one), and most pixels of a
/// stranger's picture that is decoded.
const MAX_SIDE: u32 = 8_000;
const MAX_PIXELS: u64 = 32_000_000;

/// A picture, the right way up. One that is too large for models is shown smaller, an animation as its first frame.
///
/// # Errors
/// When it is too large and can't be made smaller.
pub(super) fn read_picture(
    at: &LocatedPath,
    media_type: &str,
    bytes: &[u8],
) -> Result<WorktreePicture, ToolError> {
    let (shown, length) = (&at.shown, bytes.len());
    let whole = || WorktreePicture {
        media_type: media_type.to_owned(),
        data: STANDARD.encode(bytes),
        shown: shown.clone(),
        note: String::new(),
        sides: None,
    };
    let fits = length <= MAX_PICTURE;
    if !fits && let Some(still) = first_frame(bytes) {
        let mut picture = read_picture(at, media_type, &still.bytes)?;
        picture.note = still.note() + &picture.note;
        return Ok(picture);
    }
    let is_long = picture_sides(bytes).is_some_and(|(width, height)| width.max(height) > MAX_SIDE);
    if fits && !is_long && !is_turned(bytes) {
        return Ok(whole());
    }
    let side = if fits { MAX_SIDE } else { SIDE };
    let smaller = match shrink_picture(bytes, side, MAX_PICTURE) {
        Ok(smaller) => smaller,
        Err(_) if fits && !is_long => return Ok(whole()),
        Err(why) => {
            return Err(ToolError::refused(format!(
                "`{shown}` is a picture of {length} bytes, of which {MAX_PICTURE} can be shown, and it can't be shown \
                 smaller ({why}): you do not see it. If you have Bash, make a PNG or JPEG copy of at most {SIDE} pixels, \
                 such as with ImageMagick, ffmpeg or Python's Pillow, and Read that"
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
            " It is shown at {shown_width} × {shown_height} pixels: the file has {width} × {height} and {length} bytes."
        ),
        sides: None,
    })
}

/// A picture of a server's tool, in base64. Providers refuse a whole request for one that is cut off or too large, and
/// its model would be shown no picture of the conversation any more.
///
/// # Errors
/// When it can't be read, or is too large and can't be made smaller.
pub(super) fn fit_picture(data: &str) -> Result<WorktreePicture, ToolError> {
    let unfit = |why: &str| ToolError::refused(format!("it can't be read as a picture ({why})"));
    let bytes = STANDARD.decode(data).map_err(|error| unfit(&error.to_string()))?;
    let media_type = media_type(&bytes).ok_or_else(|| unfit("it is none by its bytes"))?;
    let sides = picture_sides(&bytes).or_else(|| gif_sides(&bytes));
    let (width, height) = sides.ok_or_else(|| unfit("its size is not in it"))?;
    let size = bytes.len();
    let large = |why: &str| {
        ToolError::refused(format!("it has {width} × {height} pixels and {size} bytes{why}"))
    };
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(large(", which is too much"));
    }
    if size <= MAX_PICTURE && width.max(height) <= MAX_SIDE {
        check_pixels(&bytes).map_err(|why| unfit(&why.to_string()))?;
        let (data, shown, note) = (data.to_owned(), String::new(), String::new());
        return Ok(WorktreePicture { media_type: media_type.to_owned(), data, shown, note, sides });
    }
    if size > MAX_PICTURE
        && let Some(still) = first_frame(&bytes)
    {
        let mut picture = fit_picture(&STANDARD.encode(&still.bytes))?;
        picture.note = still.note() + &picture.note;
        return Ok(picture);
    }
    let smaller = shrink_picture(&bytes, SIDE, MAX_PICTURE)
        .map_err(|why| large(&format!(", and can't be made smaller ({why})")))?;
    let ShrunkPicture { media_type, bytes, is: (shown_width, shown_height), .. } = smaller;
    let note = format!(
        " It is shown at {shown_width} × {shown_height} pixels: the server gave {width} × {height}."
    );
    let (data, shown) = (STANDARD.encode(bytes), String::new());
    Ok(WorktreePicture { media_type: media_type.to_owned(), data, shown, note, sides })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use image::{ImageFormat, Rgb, RgbImage};

    use super::*;
    use crate::animation::tests::animation;

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
    fn a_picture_of_a_server_is_one_that_providers_take() {
        let fit = |bytes: &[u8]| fit_picture(&STANDARD.encode(bytes));
        let shown = |bytes: &[u8]| STANDARD.decode(fit(bytes).unwrap().data).unwrap();
        let why = |bytes: &[u8]| fit(bytes).unwrap_err().to_string();
        let small = noise(30, 20, ImageFormat::Png);
        assert_eq!(shown(&small), small);
        // A page from its top to its end, as a browser's tool shows it.
        let page = noise(100, 8_001, ImageFormat::Png);
        assert!(page.len() <= MAX_PICTURE, "{}", page.len());
        let note = fit(&page).unwrap().note;
        assert!(note.ends_with("at 20 × 1568 pixels: the server gave 100 × 8001."), "{note}");
        assert_eq!(picture_sides(&shown(&page)), Some((20, 1_568)));
        let heavy = noise(1_100, 1_000, ImageFormat::Png);
        assert!(heavy.len() > MAX_PICTURE && shown(&heavy).len() <= MAX_PICTURE);
        for (bytes, part) in [
            (&small[..small.len() / 2], "can't be read as a picture"),
            (b"\x89PNG\r\n\x1a\nrest", "its size is not in it"),
            (b"<svg/>", "none by its bytes"),
            (b"GIF89a\xff\xff\xff\xffrest", "which is too much"),
            (b"GIF89a\x41\x1f\x01\0rest", "can't be made smaller (GIF is not changed here)"),
        ] {
            assert!(why(bytes).contains(part), "{}", why(bytes));
        }
        assert_eq!(shown(b"GIF89a\x08\0\x08\0rest"), b"GIF89a\x08\0\x08\0rest");
        let large = animation(MAX_PICTURE / 20);
        assert_eq!(shown(&large), animation(1));
        assert!(fit(&large).unwrap().note.starts_with(" It is an animation of "));
        assert!(fit_picture("%%%").is_err());
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
        assert!(why.contains("you do not see it") && why.contains("If you have Bash"), "{why}");
        let small = animation(2);
        assert_eq!(read_picture(&at, "image/gif", &small).unwrap().data, STANDARD.encode(&small));
        let large = animation(MAX_PICTURE / 20);
        assert!(large.len() > MAX_PICTURE, "{}", large.len());
        let picture = read_picture(&at, "image/gif", &large).unwrap();
        assert_eq!(picture.data, STANDARD.encode(animation(1)));
        assert!(picture.note.starts_with(" It is an animation of "), "{}", picture.note);
        let broken = [b"\x89PNG\r\n\x1a\n".as_slice(), &vec![0; MAX_PICTURE]].concat();
        read_picture(&at, "image/png", &broken).unwrap_err();
    }
}
