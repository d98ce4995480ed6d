//! Pictures as pixels: how large they are, made smaller, and made into another kind of file. PNG and JPEG alone are
//! changed; memory and size of what is read are bounded.

use std::borrow::Cow;
use std::io::Cursor;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use super::ToolError;
use super::kinds::{check_ending, media_type};

/// Longest side of one that is read, in pixels, and memory for it.
const MAX_SIDE: u32 = 16_384;
const MAX_MEMORY: u64 = 320 << 20;

/// A picture that was made smaller.
pub(super) struct ShrunkPicture {
    pub media_type: &'static str,
    pub bytes: Vec<u8>,
    /// Width and height, before and now.
    pub was: (u32, u32),
    pub is: (u32, u32),
}

/// A picture can't be changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PictureError {
    #[error("WebP is not changed here")]
    WebP,
    #[error("GIF is not changed here")]
    Gif,
    #[error("it is none by its bytes")]
    NoPicture,
    #[error("its background is transparent, which no JPEG can be")]
    Transparent,
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// The decoder of a PNG or JPEG, and how it is to be turned.
fn open_picture(bytes: &[u8]) -> Result<(impl ImageDecoder + '_, Orientation), PictureError> {
    let format = match media_type(bytes) {
        Some("image/png") => ImageFormat::Png,
        Some("image/jpeg") => ImageFormat::Jpeg,
        Some("image/webp") => return Err(PictureError::WebP),
        Some("image/gif") => return Err(PictureError::Gif),
        _ => return Err(PictureError::NoPicture),
    };
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(MAX_SIDE), Some(MAX_SIDE));
    limits.max_alloc = Some(MAX_MEMORY);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let turned = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    Ok((decoder, turned))
}

/// Decodes a picture as people see it: cameras only note that it has to be turned.
fn decode_picture(bytes: &[u8]) -> Result<DynamicImage, PictureError> {
    let (decoder, turned) = open_picture(bytes)?;
    let mut picture = DynamicImage::from_decoder(decoder)?;
    picture.apply_orientation(turned);
    Ok(picture)
}

/// True if the camera has noted that it has to be turned: people see it turned, models may not.
pub(super) fn is_turned(bytes: &[u8]) -> bool {
    open_picture(bytes).is_ok_and(|(_, turned)| turned != Orientation::NoTransforms)
}

/// Width and height of a PNG, JPEG or WebP, as people see it.
pub(super) fn picture_sides(bytes: &[u8]) -> Option<(u32, u32)> {
    if media_type(bytes) == Some("image/webp") {
        return webp_sides(bytes);
    }
    let (decoder, turned) = open_picture(bytes).ok()?;
    let (width, height) = decoder.dimensions();
    let is_aside = matches!(
        turned,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    );
    Some(if is_aside { (height, width) } else { (width, height) })
}

/// Decodes a PNG or JPEG to its end. GIF and WebP are not decoded here.
pub(super) fn check_pixels(bytes: &[u8]) -> Result<(), PictureError> {
    match media_type(bytes) {
        Some("image/png" | "image/jpeg") => decode_picture(bytes).map(drop),
        _ => Ok(()),
    }
}

/// Width and height of a GIF.
pub(super) fn gif_sides(bytes: &[u8]) -> Option<(u32, u32)> {
    if media_type(bytes) != Some("image/gif") {
        return None;
    }
    let side = |place: usize| {
        Some(u32::from(u16::from_le_bytes(bytes.get(place..place + 2)?.try_into().ok()?)))
    };
    Some((side(6)?, side(8)?))
}

fn webp_sides(bytes: &[u8]) -> Option<(u32, u32)> {
    let at = |place: usize| bytes.get(place).copied().map(u32::from);
    let word = |place: usize| Some(at(place)? | at(place + 1)? << 8);
    match bytes.get(12..16)? {
        b"VP8 " => Some((word(26)? & 0x3fff, word(28)? & 0x3fff)),
        b"VP8L" => {
            let bits = word(21)? | word(23)? << 16;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => {
            let three = |place: usize| Some(word(place)? | at(place + 2)? << 16);
            Some((three(24)? + 1, three(27)? + 1))
        }
        _ => None,
    }
}

/// Makes one that has at most so many pixels on its longer side, and so many bytes.
pub(super) fn shrink_picture(
    bytes: &[u8],
    side: u32,
    most: usize,
) -> Result<ShrunkPicture, PictureError> {
    let large = decode_picture(bytes)?;
    let was = (large.width(), large.height());
    // A large file may have few pixels: it gets no larger.
    let side = side.min(was.0.max(was.1));
    let small = large.thumbnail(side, side);
    drop(large);
    let is = (small.width(), small.height());
    // Transparency is kept (as PNG), unless the file gets too large.
    if small.color().has_alpha() {
        let bytes = encode_picture(&small, ImageFormat::Png)?;
        if bytes.len() <= most {
            return Ok(ShrunkPicture { media_type: "image/png", bytes, was, is });
        }
    }
    let plain = DynamicImage::ImageRgb8(small.into_rgb8());
    let bytes = encode_picture(&plain, ImageFormat::Jpeg)?;
    Ok(ShrunkPicture { media_type: "image/jpeg", bytes, was, is })
}

fn encode_picture(picture: &DynamicImage, format: ImageFormat) -> Result<Vec<u8>, PictureError> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format)?;
    Ok(bytes.into_inner())
}

/// The bytes for a file of this name: as they are where they are of the kind that it says, else made of them. With a
/// sentence where they are.
///
/// # Errors
/// With the endings that fit.
pub(super) fn fit_ending<'b>(
    bytes: &'b [u8],
    path: &str,
) -> Result<(Cow<'b, [u8]>, Option<&'static str>), ToolError> {
    let Err(unfit) = check_ending(bytes, path) else { return Ok((Cow::Borrowed(bytes), None)) };
    let ending = path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let (format, told) = match (media_type(bytes), ending.as_deref()) {
        (Some("image/jpeg"), Some("png")) => {
            (ImageFormat::Png, "The image is a JPEG: a PNG was made of it.")
        }
        (Some("image/png"), Some("jpg" | "jpeg")) => {
            (ImageFormat::Jpeg, "The image is a PNG: a JPEG was made of it.")
        }
        _ => return Err(unfit),
    };
    let failed = |why: PictureError| {
        ToolError::refused(format!("no {format:?} can be made of the image ({why}): {unfit}"))
    };
    let mut picture = decode_picture(bytes).map_err(failed)?;
    if format == ImageFormat::Jpeg {
        if picture.color().has_alpha() && picture.to_rgba8().pixels().any(|one| one.0[3] < 255) {
            return Err(failed(PictureError::Transparent));
        }
        picture = DynamicImage::ImageRgb8(picture.into_rgb8());
    }
    Ok((Cow::Owned(encode_picture(&picture, format).map_err(failed)?), Some(told)))
}

#[cfg(test)]
mod tests {
    use image::{Rgb, RgbImage, Rgba, RgbaImage};

    use super::*;

    fn plain(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let picture = RgbImage::from_pixel(width, height, Rgb([200, 30, 30]));
        encode_picture(&DynamicImage::ImageRgb8(picture), format).unwrap()
    }

    #[test]
    fn a_file_becomes_what_its_name_says_or_the_name_is_refused() {
        let (png, jpeg) = (plain(8, 4, ImageFormat::Png), plain(8, 4, ImageFormat::Jpeg));
        let kind = |bytes: &[u8], path: &str| {
            let (made, told) = fit_ending(bytes, path)?;
            Ok::<_, ToolError>((media_type(&made), told.is_some()))
        };
        assert_eq!(kind(&png, "a.png").unwrap(), (Some("image/png"), false));
        assert_eq!(kind(&jpeg, "a.JPG").unwrap(), (Some("image/jpeg"), false));
        assert_eq!(kind(&jpeg, "a.png").unwrap(), (Some("image/png"), true));
        assert_eq!(kind(&png, "a.jpeg").unwrap(), (Some("image/jpeg"), true));
        let clear = RgbaImage::from_pixel(2, 2, Rgba([0, 0, 0, 0]));
        let clear = encode_picture(&DynamicImage::ImageRgba8(clear), ImageFormat::Png).unwrap();
        let why = kind(&clear, "a.jpg").unwrap_err().to_string();
        assert!(why.contains("transparent") && why.contains("ends in .png"), "{why}");
        let why = kind(b"RIFF\0\0\0\0WEBPVP8 ", "a.png").unwrap_err().to_string();
        assert!(why.contains("ends in .webp"), "{why}");
        kind(&png, "a.svg").unwrap_err();
        kind(b"\xff\xd8\xff\xe0rest", "a.png").unwrap_err();
    }

    #[test]
    fn sides_are_those_that_people_see() {
        assert_eq!(picture_sides(&plain(8, 4, ImageFormat::Png)), Some((8, 4)));
        let jpeg = plain(8, 4, ImageFormat::Jpeg);
        assert_eq!(picture_sides(&jpeg), Some((8, 4)));
        // Turned by its camera: Exif's orientation 6.
        let exif = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let turned = [&jpeg[..2], exif, &jpeg[2..]].concat();
        assert_eq!(picture_sides(&turned), Some((4, 8)));
        let shrunk = shrink_picture(&turned, 4, 1 << 20).unwrap();
        assert_eq!((shrunk.was, shrunk.is), ((4, 8), (2, 4)));
        let small = shrink_picture(&plain(8, 4, ImageFormat::Png), 1_568, 1 << 20).unwrap();
        assert_eq!((small.was, small.is), ((8, 4), (8, 4)));
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x07\xc0\0\0rest";
        assert_eq!(picture_sides(lossless), Some((8, 4)));
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x07\0\0\x03\0\0rest";
        assert_eq!(picture_sides(extended), Some((8, 4)));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x08\0\x04\0rest";
        assert_eq!(picture_sides(lossy), Some((8, 4)));
        assert_eq!(picture_sides(b"RIFF\0\0\0\0WEBPVP8X"), None);
        assert_eq!(gif_sides(b"GIF89a\x08\x01\x04\0"), Some((264, 4)));
        assert!(gif_sides(b"GIF89a\x08").is_none() && gif_sides(lossy).is_none());
        assert_eq!(picture_sides(b"\x89PNG\r\n\x1a\nrest"), None);
    }
}
