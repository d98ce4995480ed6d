//! Git's pkt-line framing: four hex digits of length (themselves included), then the payload.

/// The largest packet that Git writes, its length field included.
pub const MAX_PACKET: usize = 65_520;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PktLine<'a> {
    /// A payload, possibly empty.
    Data(&'a [u8]),
    /// `0000`: the end of a section.
    Flush,
    /// `0001`: a divider (protocol 2).
    Delimiter,
    /// `0002`: the end of a response (protocol 2).
    ResponseEnd,
}

/// The bytes are not a packet line.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PacketError {
    /// The length is not four hex digits.
    #[error("a packet's length is not four hexadecimal digits")]
    NotHex,
    /// `0003`, or longer than Git allows.
    #[error("a packet's length of {0} is not allowed")]
    Length(usize),
}

/// Reads the first packet of `bytes` and tells how many bytes it took; nothing if more are needed.
///
/// # Errors
/// When the bytes can't be the beginning of a packet.
pub fn read_packet(bytes: &[u8]) -> Result<Option<(PktLine<'_>, usize)>, PacketError> {
    let Some((header, rest)) = bytes.split_first_chunk::<4>() else {
        return if bytes.iter().all(u8::is_ascii_hexdigit) {
            Ok(None)
        } else {
            Err(PacketError::NotHex)
        };
    };
    if !header.iter().all(u8::is_ascii_hexdigit) {
        return Err(PacketError::NotHex);
    }
    let text = std::str::from_utf8(header).map_err(|_| PacketError::NotHex)?;
    let length = usize::from_str_radix(text, 16).map_err(|_| PacketError::NotHex)?;
    match length {
        0 => Ok(Some((PktLine::Flush, 4))),
        1 => Ok(Some((PktLine::Delimiter, 4))),
        2 => Ok(Some((PktLine::ResponseEnd, 4))),
        3 => Err(PacketError::Length(length)),
        _ if length > MAX_PACKET => Err(PacketError::Length(length)),
        _ => Ok(rest.get(..length - 4).map(|payload| (PktLine::Data(payload), length))),
    }
}

/// Appends `payload` as packets, split where it is too long for one. An empty one is one packet.
pub fn write_packets(out: &mut Vec<u8>, payload: &[u8]) {
    write_prefixed(out, &[], payload);
}

/// Appends `payload` on a side band, split where it is too long for one packet.
pub fn write_band(out: &mut Vec<u8>, band: u8, payload: &[u8]) {
    write_prefixed(out, &[band], payload);
}

pub fn write_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

fn write_prefixed(out: &mut Vec<u8>, prefix: &[u8], payload: &[u8]) {
    let room = MAX_PACKET - 4 - prefix.len();
    let mut rest = payload;
    loop {
        let (part, tail) = rest.split_at(rest.len().min(room));
        out.extend_from_slice(format!("{:04x}", 4 + prefix.len() + part.len()).as_bytes());
        out.extend_from_slice(prefix);
        out.extend_from_slice(part);
        rest = tail;
        if rest.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_packet_is_read() {
        assert_eq!(read_packet(b"0000rest"), Ok(Some((PktLine::Flush, 4))));
        assert_eq!(read_packet(b"0001"), Ok(Some((PktLine::Delimiter, 4))));
        assert_eq!(read_packet(b"0002"), Ok(Some((PktLine::ResponseEnd, 4))));
        assert_eq!(read_packet(b"0004"), Ok(Some((PktLine::Data(b""), 4))));
        assert_eq!(read_packet(b"0009hello0000"), Ok(Some((PktLine::Data(b"hello"), 9))));
        assert_eq!(read_packet(b"000Ahello\n"), Ok(Some((PktLine::Data(b"hello\n"), 10))));
    }

    #[test]
    fn a_truncated_packet_asks_for_more() {
        for bytes in [&b""[..], b"0", b"00", b"000", b"0009", b"0009hell"] {
            assert_eq!(read_packet(bytes), Ok(None), "{bytes:?}");
        }
    }

    #[test]
    fn nonsense_is_refused_as_early_as_it_shows() {
        for bytes in [&b"x"[..], b"00-1", b"+004", b" 004abcd", b"\xff\xff\xff\xff"] {
            assert_eq!(read_packet(bytes), Err(PacketError::NotHex), "{bytes:?}");
        }
        assert_eq!(read_packet(b"0003"), Err(PacketError::Length(3)));
        assert_eq!(read_packet(b"fff1"), Err(PacketError::Length(65_521)));
        assert_eq!(read_packet(b"fff0"), Ok(None));
    }

    #[test]
    fn what_is_written_reads_back() {
        let long = vec![b'x'; MAX_PACKET];
        let mut out = Vec::new();
        write_band(&mut out, 2, &long);
        write_flush(&mut out);
        let (mut at, mut payload) = (0, Vec::new());
        while let Some((packet, used)) = read_packet(&out[at..]).unwrap() {
            at += used;
            match packet {
                PktLine::Data(data) => {
                    assert_eq!(data[0], 2);
                    payload.extend_from_slice(&data[1..]);
                }
                _ => break,
            }
        }
        assert_eq!((at, payload), (out.len(), long));
    }
}
