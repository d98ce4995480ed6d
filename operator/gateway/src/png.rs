//! PNGs of agents, looked at before they go anywhere: the form alone, so that nothing is decoded here. Pure.

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Longest side of an image, in pixels.
const MAX_SIDE: u32 = 16_384;
/// Parts that a picture of a page has. None of them holds text.
const PARTS: [&[u8; 4]; 12] = [
    b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"sBIT",
    b"bKGD", b"pHYs",
];

/// Reason why a file is not passed on as a PNG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PngError {
    #[error("it is no PNG by its bytes")]
    Signature,
    #[error("it is cut off or damaged")]
    Cut,
    #[error("its sides have 1 to {MAX_SIDE} pixels")]
    Size,
    #[error("it holds something else than a picture")]
    Foreign,
}

/// Checks that bytes are a PNG from their beginning to their end, and nothing besides.
///
/// # Errors
/// With the reason.
pub fn check_png(bytes: &[u8]) -> Result<(), PngError> {
    let mut rest = bytes.strip_prefix(SIGNATURE).ok_or(PngError::Signature)?;
    let (mut is_first, mut has_data) = (true, false);
    loop {
        let (head, behind) = rest.split_first_chunk::<8>().ok_or(PngError::Cut)?;
        let [a, b, c, d, kind @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX);
        if !PARTS.contains(&kind) {
            return Err(PngError::Foreign);
        }
        let data = behind.get(..length).ok_or(PngError::Cut)?;
        // A checksum follows.
        rest = behind.get(length..).and_then(|behind| behind.get(4..)).ok_or(PngError::Cut)?;
        match kind {
            b"IHDR" if is_first => check_size(data)?,
            b"IHDR" => return Err(PngError::Foreign),
            _ if is_first => return Err(PngError::Cut),
            b"IDAT" => has_data = true,
            b"IEND" => {
                let is_end = length == 0 && rest.is_empty();
                return match (has_data, is_end) {
                    (true, true) => Ok(()),
                    (false, _) => Err(PngError::Cut),
                    (_, false) => Err(PngError::Foreign),
                };
            }
            _ => {}
        }
        is_first = false;
    }
}

fn check_size(header: &[u8]) -> Result<(), PngError> {
    let (width, rest) = header.split_first_chunk::<4>().ok_or(PngError::Cut)?;
    let (height, rest) = rest.split_first_chunk::<4>().ok_or(PngError::Cut)?;
    // Depth, colours, and three methods.
    if rest.len() != 5 {
        return Err(PngError::Cut);
    }
    let sides = [u32::from_be_bytes(*width), u32::from_be_bytes(*height)];
    let fits = sides.iter().all(|side| (1..=MAX_SIDE).contains(side));
    if fits { Ok(()) } else { Err(PngError::Size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap().to_be_bytes();
        [&length[..], &kind, data, &[0; 4]].concat()
    }

    fn header(width: u32, height: u32) -> Vec<u8> {
        let data = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 6, 0, 0, 0]].concat();
        part(*b"IHDR", &data)
    }

    fn png(parts: &[Vec<u8>]) -> Vec<u8> {
        [SIGNATURE, &parts.concat()].concat()
    }

    #[test]
    fn a_picture_is_one_from_beginning_to_end() {
        let (data, end) = (part(*b"IDAT", b"x"), part(*b"IEND", b""));
        let good = png(&[header(390, 844), part(*b"sRGB", b"\0"), data.clone(), end.clone()]);
        assert_eq!(check_png(&good), Ok(()));
        for cut in 0..good.len() {
            assert!(check_png(&good[..cut]).is_err(), "{cut}");
        }
        let wrong = |parts: &[Vec<u8>]| check_png(&png(parts)).unwrap_err();
        let text = part(*b"tEXt", b"Comment\0<script>");
        assert_eq!(wrong(&[header(1, 1), text, data.clone(), end.clone()]), PngError::Foreign);
        assert_eq!(
            wrong(&[header(1, 1), data.clone(), end.clone(), b"<html>".to_vec()]),
            PngError::Foreign
        );
        assert_eq!(wrong(&[header(0, 1), data.clone(), end.clone()]), PngError::Size);
        assert_eq!(wrong(&[header(1, 20_000), data.clone(), end.clone()]), PngError::Size);
        assert_eq!(wrong(&[header(1, 1), end.clone()]), PngError::Cut);
        assert_eq!(wrong(&[data, header(1, 1), end]), PngError::Cut);
        for other in [&b"<svg onload=x>"[..], b"", b"GIF89a", b"\xff\xd8\xff"] {
            assert_eq!(check_png(other), Err(PngError::Signature));
        }
        let lies = png(&[header(1, 1), [&[0xff; 4][..], b"IDAT", b"x"].concat()]);
        assert_eq!(check_png(&lies), Err(PngError::Cut));
    }
}
