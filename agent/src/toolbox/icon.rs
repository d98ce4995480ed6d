//! `favicon.ico`, made of an image: the sizes that browsers and desktops ask for, in one file.

use std::io::Cursor;

use image::imageops::{self, FilterType};
use image::{ImageFormat, ImageReader, Limits, RgbaImage};

use super::ToolError;

/// Sides of the icon's pictures, in pixels.
const SIDES: [u8; 3] = [16, 32, 48];
/// Longest side of the image that it is made of, and memory for it.
const MAX_SIDE: u32 = 8_192;
const MAX_MEMORY: u64 = 320 << 20;
/// Bytes before an icon's pictures: of the whole, and of each.
const HEAD: usize = 6;
const ENTRY: usize = 16;

/// True for the name of an icon.
pub(super) fn is_icon(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| ending.eq_ignore_ascii_case("ico"))
}

/// An icon of a PNG or JPEG. The same image makes the same icon.
pub(super) fn make_icon(bytes: &[u8]) -> Result<Vec<u8>, ToolError> {
    let refused = |why: &dyn std::fmt::Display| {
        ToolError::refused(format!(
            "no icon can be made of this image ({why}): it has to be a PNG or JPEG"
        ))
    };
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| refused(&error))?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return Err(refused(&"its bytes are of another kind"));
    }
    let mut limits = Limits::default();
    (limits.max_image_width, limits.max_image_height) = (Some(MAX_SIDE), Some(MAX_SIDE));
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    let image = square(&reader.decode().map_err(|error| refused(&error))?.into_rgba8());
    let mut pictures = Vec::new();
    for side in SIDES {
        let small =
            imageops::resize(&image, u32::from(side), u32::from(side), FilterType::Lanczos3);
        let mut png = Cursor::new(Vec::new());
        small.write_to(&mut png, ImageFormat::Png).map_err(|error| refused(&error))?;
        pictures.push((side, png.into_inner()));
    }
    Ok(join_pictures(&pictures))
}

/// Centers an image in a transparent square.
fn square(image: &RgbaImage) -> RgbaImage {
    let (width, height) = image.dimensions();
    let side = width.max(height);
    let mut square = RgbaImage::new(side, side);
    imageops::overlay(
        &mut square,
        image,
        i64::from((side - width) / 2),
        i64::from((side - height) / 2),
    );
    square
}

/// Joins the pictures to a Windows icon of PNGs, which browsers have read for long.
fn join_pictures(pictures: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let short = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).to_le_bytes();
    let long = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    let mut icon = [[0, 0], [1, 0], short(pictures.len())].concat();
    let mut at = HEAD + ENTRY * pictures.len();
    for (side, png) in pictures {
        // Width, height, no palette; one plane of 32 bits.
        icon.extend([*side, *side, 0, 0, 1, 0, 32, 0]);
        icon.extend(long(png.len()));
        icon.extend(long(at));
        at += png.len();
    }
    icon.extend(pictures.iter().flat_map(|(_, png)| png));
    icon
}

#[cfg(test)]
mod tests {
    use image::Rgba;

    use super::*;

    fn encoded(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        let image = RgbaImage::from_pixel(width, height, Rgba([200, 30, 30, 255]));
        match format {
            ImageFormat::Jpeg => {
                image::DynamicImage::from(image).into_rgb8().write_to(&mut out, format).unwrap();
            }
            _ => image.write_to(&mut out, format).unwrap(),
        }
        out.into_inner()
    }

    #[test]
    fn an_icon_has_all_sizes_and_an_oblong_image_is_not_bent() {
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let icon = make_icon(&encoded(64, 32, format)).unwrap();
            assert_eq!(&icon[..6], [0, 0, 1, 0, 3, 0]);
            let mut end = HEAD + ENTRY * SIDES.len();
            for (n, side) in SIDES.iter().enumerate() {
                let entry = &icon[HEAD + ENTRY * n..][..ENTRY];
                assert_eq!(entry[..8], [*side, *side, 0, 0, 1, 0, 32, 0]);
                let number = |from: usize| {
                    u32::from_le_bytes(entry[from..from + 4].try_into().unwrap()) as usize
                };
                assert_eq!(number(12), end);
                let picture = &icon[end..end + number(8)];
                end += number(8);
                let picture = image::load_from_memory_with_format(picture, ImageFormat::Png)
                    .unwrap()
                    .into_rgba8();
                assert_eq!(picture.dimensions(), (u32::from(*side), u32::from(*side)));
                let middle = u32::from(*side) / 2;
                assert_eq!(picture.get_pixel(middle, 0)[3], 0, "nothing above it");
                assert_eq!(picture.get_pixel(middle, middle)[3], 255);
            }
            assert_eq!(end, icon.len());
        }
        assert_eq!(
            make_icon(&encoded(20, 20, ImageFormat::Png)).unwrap(),
            make_icon(&encoded(20, 20, ImageFormat::Png)).unwrap()
        );
    }

    #[test]
    fn what_is_no_image_or_a_giant_makes_no_icon() {
        let mut giant = encoded(1, 1, ImageFormat::Png);
        giant[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
        for bytes in [&b"<svg onload=x>"[..], b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", &giant] {
            let why = make_icon(bytes).unwrap_err().to_string();
            assert!(why.contains("has to be a PNG or JPEG"), "{why}");
        }
        assert!(is_icon("public/favicon.ICO") && !is_icon("icon.png") && !is_icon("ico"));
    }
}
