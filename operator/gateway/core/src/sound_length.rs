//! The length of a recording, as its container tells it. Whoever made the file can lie there. Pure.

use crate::sound::{SoundFormat, SoundKind, detect_sound};

/// Chunks and boxes that are looked at.
const PARTS: usize = 1000;
/// Opus counts so many samples in a second, whatever it was recorded with.
const OPUS_RATE: u64 = 48_000;
/// Bytes at the end in which the last page of an Ogg file begins.
const OGG_TAIL: usize = 128 << 10;

/// Whole seconds, rounded up. Nothing for forms that do not tell it at a fixed place, and for files that are cut.
pub fn told_seconds(bytes: &[u8]) -> Option<u64> {
    let SoundKind::Sound(format) = detect_sound(bytes) else { return None };
    let (units, rate) = match format {
        SoundFormat::Wav => wave_length(bytes)?,
        SoundFormat::M4a => movie_length(bytes)?,
        SoundFormat::Ogg => ogg_length(bytes)?,
        _ => return None,
    };
    (units > 0 && rate > 0).then(|| units.div_ceil(rate))
}

/// A number whose first byte is the largest.
fn big_endian(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

/// A number whose last byte is the largest.
fn little_endian(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(length)?)?;
    Some(field.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

/// Bytes of sound, and bytes of a second.
fn wave_length(bytes: &[u8]) -> Option<(u64, u64)> {
    let (mut at, mut rate) = (12_usize, None);
    for _ in 0..PARTS {
        let size = little_endian(bytes, at.checked_add(4)?, 4)?;
        let body = at.checked_add(8)?;
        let name = bytes.get(at..body)?;
        if name.starts_with(b"fmt ") {
            rate = little_endian(bytes, body.checked_add(8)?, 4);
        }
        if name.starts_with(b"data") {
            // Who writes it while it is recorded does not know its size.
            let rest = u64::try_from(bytes.len().saturating_sub(body)).ok()?;
            return Some((size.min(rest), rate?));
        }
        at = body.checked_add(usize::try_from(size + size % 2).ok()?)?;
    }
    None
}

/// Units of time of an MP4 file, and those of a second.
fn movie_length(bytes: &[u8]) -> Option<(u64, u64)> {
    let header = find_box(find_box(bytes, b"moov")?, b"mvhd")?;
    // Its first version has times of half the size.
    let (rate_at, length, unknown) =
        if *header.first()? == 1 { (20, 8, u64::MAX) } else { (12, 4, u64::from(u32::MAX)) };
    let units = big_endian(header, rate_at + 4, length).filter(|units| *units != unknown)?;
    Some((units, big_endian(header, rate_at, 4)?))
}

/// The contents of the first box of this name.
fn find_box<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = bytes;
    for _ in 0..PARTS {
        let (head, size) = match big_endian(rest, 0, 4)? {
            // The last box goes to the end.
            0 => (8, rest.len()),
            1 => (16, usize::try_from(big_endian(rest, 8, 8)?).ok()?),
            size => (8, usize::try_from(size).ok()?),
        };
        if rest.get(4..8)? == name {
            return rest.get(head..size.min(rest.len()));
        }
        rest = rest.get(size.max(head)..)?;
    }
    None
}

/// Samples up to the last page, and those of a second.
fn ogg_length(bytes: &[u8]) -> Option<(u64, u64)> {
    let head = bytes.get(28..)?;
    let rate = if head.starts_with(b"OpusHead") {
        OPUS_RATE
    } else if head.starts_with(b"\x01vorbis") {
        little_endian(head, 12, 4)?
    } else {
        return None;
    };
    let tail = bytes.get(bytes.len().saturating_sub(OGG_TAIL)..)?;
    let page = tail.windows(4).rposition(|mark| mark == b"OggS")?;
    // No sound ends on a page of which all bits are set.
    let samples = little_endian(tail, page + 6, 8).filter(|samples| *samples != u64::MAX)?;
    Some((samples, rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(size: u32) -> Vec<u8> {
        let format = b"fmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0";
        let head = [&b"RIFF\0\0\0\0WAVE"[..], b"LIST\x03\0\0\0abc\0", format, b"data"].concat();
        [&head[..], &size.to_le_bytes(), &[0x80; 12_001]].concat()
    }

    fn movie(header: &[u8]) -> Vec<u8> {
        let one = |name: &[u8], body: &[u8]| {
            let size = u32::try_from(body.len() + 8).unwrap();
            [&size.to_be_bytes()[..], name, body].concat()
        };
        let moov = one(b"moov", &[one(b"free", b""), one(b"mvhd", header)].concat());
        [one(b"ftyp", b"M4A \0\0\0\0"), one(b"mdat", &[0; 40]), moov].concat()
    }

    fn ogg(head: &[u8], samples: u64) -> Vec<u8> {
        let page = |samples: u64, body: &[u8]| {
            let size = u8::try_from(body.len()).unwrap();
            let marks = samples.to_le_bytes();
            [&b"OggS\0\0"[..], &marks, &[0; 12], &[1, size], body].concat()
        };
        [page(0, head), page(samples, b"sound")].concat()
    }

    #[test]
    fn the_length_is_where_each_container_has_it() {
        assert_eq!(told_seconds(&wave(12_001)), Some(2));
        assert_eq!(told_seconds(&wave(u32::MAX)), Some(2), "as much as there is");
        let short = [&[0_u8; 12][..], &1000_u32.to_be_bytes(), &2500_u32.to_be_bytes()].concat();
        assert_eq!(told_seconds(&movie(&short)), Some(3));
        let long =
            [&[1_u8][..], &[0; 19], &1000_u32.to_be_bytes(), &61_000_u64.to_be_bytes()].concat();
        assert_eq!(told_seconds(&movie(&long)), Some(61));
        assert_eq!(told_seconds(&ogg(b"OpusHead\x01\x01", 96_000)), Some(2));
        let vorbis = b"\x01vorbis\0\0\0\0\x01\x44\xac\0\0";
        assert_eq!(told_seconds(&ogg(vorbis, 44_101)), Some(2));
    }

    #[test]
    fn what_tells_nothing_or_is_cut_has_no_length() {
        let fragments = movie(&[0; 24]);
        for bytes in [&b""[..], b"ID3\x04", b"OggS", b"RIFF\0\0\0\0WAVE", &fragments] {
            assert_eq!(told_seconds(bytes), None);
        }
        // All bits are set where nobody knew it.
        let second = 1000_u32.to_be_bytes();
        let unknown = [&[0_u8; 12][..], &second, &u32::MAX.to_be_bytes()].concat();
        assert_eq!(told_seconds(&movie(&unknown)), None);
        let unknown = [&[1_u8][..], &[0; 19], &second, &u64::MAX.to_be_bytes()].concat();
        assert_eq!(told_seconds(&movie(&unknown)), None);
        assert_eq!(told_seconds(&ogg(b"OpusHead\x01\x01", u64::MAX)), None);
        let endless = [&b"\0\0\0\x08ftyp"[..], &b"\0\0\0\0free".repeat(3)].concat();
        assert_eq!(told_seconds(&endless), None);
        for whole in [wave(12_001), fragments, ogg(b"OpusHead", 96_000)] {
            for end in (0..whole.len()).step_by(7) {
                let _ = told_seconds(&whole[..end]);
            }
        }
    }
}
