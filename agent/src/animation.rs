//! Animated GIFs. OpenAI says that it takes none, and other providers show one frame without a word. So models are sent
//! the first frame alone, and told so.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Length of the head, and of an image's own head.
const HEAD: usize = 13;
const IMAGE_HEAD: usize = 10;
const EXTENSION: u8 = 0x21;
const IMAGE: u8 = 0x2c;
const TRAILER: u8 = 0x3b;

/// The first frame of an animation, as a GIF of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StillFrame {
    pub bytes: Vec<u8>,
    /// Frames that the animation has, as far as they are whole.
    pub frames: usize,
}

impl StillFrame {
    /// A sentence on what is not shown of the animation.
    pub(crate) fn note(&self) -> String {
        format!(" It is an animation of {} frames, of which the first one is shown.", self.frames)
    }
}

/// The `data:` URL by which a model is shown a picture in base64, and a sentence where that is not all of it.
pub(crate) fn model_url(media_type: &str, data: &str) -> (String, String) {
    let bytes = (media_type == "image/gif").then(|| STANDARD.decode(data).ok()).flatten();
    match bytes.and_then(|bytes| first_frame(&bytes)) {
        Some(still) => {
            let data = STANDARD.encode(&still.bytes);
            (format!("data:{media_type};base64,{data}"), still.note())
        }
        None => (format!("data:{media_type};base64,{data}"), String::new()),
    }
}

/// The first frame of a GIF that has several; nothing for any other picture.
pub(crate) fn first_frame(bytes: &[u8]) -> Option<StillFrame> {
    if !bytes.starts_with(b"GIF87a") && !bytes.starts_with(b"GIF89a") {
        return None;
    }
    let mut at = HEAD + palette_length(*bytes.get(10)?);
    let (mut end, mut frames) = (None, 0);
    while let Some((next, is_frame)) = next_block(bytes, at) {
        at = next;
        if is_frame {
            frames += 1;
            end.get_or_insert(next);
        }
    }
    let still = bytes.get(..end?).filter(|_| frames > 1)?;
    Some(StillFrame { bytes: [still, &[TRAILER]].concat(), frames })
}

/// Bytes of the palette that these flags announce.
const fn palette_length(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3_usize << ((flags & 7) + 1) }
}

/// The end of the block that begins here, and whether it is a frame. Nothing at the end, or where the file is cut.
fn next_block(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    match *bytes.get(at)? {
        EXTENSION => Some((skip_parts(bytes, at + 2)?, false)),
        IMAGE => {
            let palette = palette_length(*bytes.get(at + IMAGE_HEAD - 1)?);
            // One byte tells how the pixels are packed.
            Some((skip_parts(bytes, at + IMAGE_HEAD + palette + 1)?, true))
        }
        _ => None,
    }
}

/// The end of a chain of parts, each with its length before it, of which the last one has none.
fn skip_parts(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += length + 1;
        if length == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One frame of one pixel.
    const FRAME: &[u8] = b"\x21\xf9\x04\0\x0a\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";

    /// An animation of so many frames, which repeats.
    pub(crate) fn animation(frames: usize) -> Vec<u8> {
        let head = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff";
        let repeats = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0";
        [&head[..], repeats, &FRAME.repeat(frames), b"\x3b"].concat()
    }

    #[test]
    fn a_model_is_sent_the_first_frame_and_told_so() {
        let data = STANDARD.encode(animation(2));
        let (url, note) = model_url("image/gif", &data);
        assert_eq!(url, format!("data:image/gif;base64,{}", STANDARD.encode(animation(1))));
        assert_eq!(note, " It is an animation of 2 frames, of which the first one is shown.");
        for (kind, data) in [
            ("image/gif", STANDARD.encode(animation(1))),
            ("image/png", data),
            ("image/gif", "%".into()),
        ] {
            let (url, note) = model_url(kind, &data);
            assert_eq!((url, note), (format!("data:{kind};base64,{data}"), String::new()));
        }
    }

    #[test]
    fn an_animation_becomes_its_first_frame() {
        let still = first_frame(&animation(3)).unwrap();
        assert_eq!((still.bytes, still.frames), (animation(1), 3));
        assert_eq!(first_frame(&animation(1)), None, "it is still already");
        // Of one that was cut, what is whole counts.
        let cut = animation(3);
        assert_eq!(first_frame(&cut[..cut.len() - 4]).unwrap().frames, 2);
    }

    #[test]
    fn a_palette_of_a_frame_is_no_frame() {
        let with_palette =
            b"\x2c\0\0\0\0\x01\0\x01\0\x80\x2c\x2c\x2c\x2c\x2c\x2c\x02\x02\x44\x01\0";
        let head = b"GIF87a\x01\0\x01\0\0\0\0";
        let two = [&head[..], with_palette, with_palette, b"\x3b"].concat();
        let still = first_frame(&two).unwrap();
        assert_eq!(still.bytes, [&head[..], with_palette, b"\x3b"].concat());
        assert_eq!(still.frames, 2);
    }

    #[test]
    fn hostile_bytes_are_no_animation() {
        for bytes in [&b""[..], b"GIF89a", b"GIF89a\x01\0\x01\0\x87", b"\x89PNG\r\n\x1a\n"] {
            assert_eq!(first_frame(bytes), None);
        }
        let whole = animation(2);
        for end in 0..whole.len() {
            let _ = first_frame(&whole[..end]);
        }
        let endless = [&animation(1)[..19], &b"\x21\xf9\xff".repeat(1000)].concat();
        assert_eq!(first_frame(&endless), None);
    }
}
