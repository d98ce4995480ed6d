//! The kind of a recording, by its own first bytes: a name or a media type may say anything. Pure.

/// Bytes that are looked at.
const LOOKED_AT: usize = 512;

/// Brands of the container of MP4 that stand for pictures: HEIC and AVIF.
const PICTURES: [&[u8]; 7] = [b"heic", b"heix", b"heim", b"mif1", b"msf1", b"avif", b"avis"];

/// A form of sound that providers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoundFormat {
    Wav,
    Mp3,
    Flac,
    Ogg,
    Webm,
    M4a,
    Aac,
    Aiff,
}

/// Kind of a file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoundKind {
    Sound(SoundFormat),
    /// Certainly no sound, in a few words.
    Other(&'static str),
    Unknown,
}

impl SoundFormat {
    /// Returns the name that APIs and file names have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wav => "wav",
            Self::Mp3 => "mp3",
            Self::Flac => "flac",
            Self::Ogg => "ogg",
            Self::Webm => "webm",
            Self::M4a => "m4a",
            Self::Aac => "aac",
            Self::Aiff => "aiff",
        }
    }

    /// Finds the format by the extension of a name, or else by a media type.
    pub fn by_name(name: &str, media_type: &str) -> Option<Self> {
        let end = name.rsplit_once('.').map_or("", |(_, end)| end);
        let kind = media_type.split(';').next().unwrap_or_default().trim();
        let kind = kind.rsplit_once('/').map_or("", |(_, kind)| kind);
        [end, kind].into_iter().find_map(|word| {
            Some(match word.to_ascii_lowercase().trim_start_matches("x-") {
                "wav" | "wave" => Self::Wav,
                "mp3" | "mpeg" | "mpga" => Self::Mp3,
                "flac" => Self::Flac,
                "ogg" | "oga" | "opus" => Self::Ogg,
                "webm" => Self::Webm,
                "m4a" | "mp4" | "mov" => Self::M4a,
                "aac" => Self::Aac,
                "aif" | "aiff" => Self::Aiff,
                _ => return None,
            })
        })
    }
}

/// Looks at the beginning of a file.
pub fn detect_sound(bytes: &[u8]) -> SoundKind {
    let head = &bytes[..bytes.len().min(LOOKED_AT)];
    let at = |from: usize, mark: &[u8]| head.get(from..from + mark.len()) == Some(mark);
    // Pictures of phones are in the same container as their sounds, and text in UTF-16 begins like MP3.
    if at(4, b"ftyp") && PICTURES.iter().any(|brand| at(8, brand)) {
        return SoundKind::Other("a picture");
    }
    if at(0, b"\xff\xfe") {
        return SoundKind::Other("a text");
    }
    let sound = match head {
        _ if at(0, b"RIFF") && at(8, b"WAVE") => Some(SoundFormat::Wav),
        _ if at(0, b"ID3") => Some(SoundFormat::Mp3),
        // Both begin with the same bits; AAC has no layer.
        [0xff, second, ..] if second & 0xf6 == 0xf0 => Some(SoundFormat::Aac),
        [0xff, second, ..] if second & 0xe0 == 0xe0 => Some(SoundFormat::Mp3),
        _ if at(0, b"fLaC") => Some(SoundFormat::Flac),
        _ if at(0, b"OggS") => Some(SoundFormat::Ogg),
        _ if at(0, &[0x1a, 0x45, 0xdf, 0xa3]) => Some(SoundFormat::Webm),
        _ if at(4, b"ftyp") => Some(SoundFormat::M4a),
        _ if at(0, b"FORM") && (at(8, b"AIFF") || at(8, b"AIFC")) => Some(SoundFormat::Aiff),
        _ => None,
    };
    if let Some(sound) = sound {
        return SoundKind::Sound(sound);
    }
    let marks: [(&[u8], &str); 9] = [
        (b"%PDF", "a PDF"),
        (b"PK\x03\x04", "a ZIP archive or an Office file"),
        (b"\x1f\x8b", "a compressed archive"),
        (b"\x89PNG", "a picture"),
        (b"GIF8", "a picture"),
        (b"RIFF", "a picture or a video"),
        (b"\x7fELF", "a program"),
        (b"MZ", "a program"),
        (b"\xff\xd8\xff", "a picture"),
    ];
    match marks.iter().find(|(mark, _)| at(0, mark)) {
        Some((_, what)) => SoundKind::Other(what),
        None if head.is_empty() => SoundKind::Other("empty"),
        None if is_text(head) => SoundKind::Other("a text"),
        None => SoundKind::Unknown,
    }
}

fn is_text(head: &[u8]) -> bool {
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    match std::str::from_utf8(head) {
        Ok(text) => text.chars().all(plain),
        // A letter that is cut by the end of what is looked at.
        Err(error) => error.error_len().is_none() && error.valid_up_to() > 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_bytes_and_not_by_its_name() {
        let sound = SoundKind::Sound;
        for (bytes, kind) in [
            (&b"RIFF\x10\0\0\0WAVEfmt "[..], sound(SoundFormat::Wav)),
            (b"ID3\x04", sound(SoundFormat::Mp3)),
            (b"\xff\xfb\x90\x64", sound(SoundFormat::Mp3)),
            (b"\xff\xf1\x50\x80", sound(SoundFormat::Aac)),
            (b"fLaC\0", sound(SoundFormat::Flac)),
            (b"OggS\0", sound(SoundFormat::Ogg)),
            (b"\x1a\x45\xdf\xa3", sound(SoundFormat::Webm)),
            (b"\0\0\0\x20ftypM4A ", sound(SoundFormat::M4a)),
            (b"FORM\0\0\0\0AIFF", sound(SoundFormat::Aiff)),
            (b"\0\0\0\x18ftypheic\0\0\0\0", SoundKind::Other("a picture")),
            (b"\xff\xfeh\0i\0", SoundKind::Other("a text")),
            (b"%PDF-1.7", SoundKind::Other("a PDF")),
            (b"RIFF\0\0\0\0WEBP", SoundKind::Other("a picture or a video")),
            (b"\xff\xd8\xff\xe0", SoundKind::Other("a picture")),
            (b"<html>", SoundKind::Other("a text")),
            (b"", SoundKind::Other("empty")),
            (b"\x07\x07\x07", SoundKind::Unknown),
        ] {
            assert_eq!(detect_sound(bytes), kind, "{bytes:?}");
        }
    }

    #[test]
    fn a_name_counts_before_a_media_type() {
        for (name, kind, format) in [
            ("voice.MP3", "audio/mp4", Some("mp3")),
            ("voice", "audio/mp4", Some("m4a")),
            ("voice", "audio/x-wav", Some("wav")),
            ("clip", "audio/webm; codecs=opus", Some("webm")),
            ("voice.bin", "application/octet-stream", None),
        ] {
            assert_eq!(
                SoundFormat::by_name(name, kind).map(SoundFormat::name),
                format,
                "{name} {kind}"
            );
        }
    }
}
