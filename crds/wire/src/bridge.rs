//! Frames between the gateway and the pod of a server: the server's standard streams over one connection.
//!
//! A frame is one byte for its kind, four for its length (big-endian), and its bytes. The gateway begins a session
//! with [`FrameKind::Start`], which the bridge takes; everything behind it is between the gateway and the server's
//! container.

use serde::{Deserialize, Serialize};

/// Protocol in the `Upgrade` header at [`crate::path::MCP_BRIDGE`].
pub const BRIDGE_UPGRADE: &str = "codebutler-mcp";
/// Maximum size of a frame's payload, in bytes.
pub const MOST_FRAME: usize = 64 * 1024;
/// Seconds after which a side that has nothing to send sends a [`FrameKind::Ping`].
pub const BRIDGE_PING_SECONDS: u64 = 20;
/// Seconds of silence after which the other side is taken to be gone.
pub const BRIDGE_SILENCE_SECONDS: u64 = 65;
/// Size of a frame's header, in bytes: kind and length.
const HEAD: usize = 5;

/// Kind of a frame, which says what its payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Nothing: the sender is there.
    Ping,
    /// Nothing: the gateway begins a session.
    Start,
    /// Nothing: the server's program runs.
    Started,
    /// Bytes for the program's standard input; without any it is closed.
    Input,
    /// Bytes of its standard output.
    Output,
    /// Bytes of its standard error.
    Errors,
    /// A [`ProgramExit`] in JSON. Nothing comes after it.
    Exit,
}

impl FrameKind {
    const ALL: [Self; 7] = [
        Self::Ping,
        Self::Start,
        Self::Started,
        Self::Input,
        Self::Output,
        Self::Errors,
        Self::Exit,
    ];

    fn read(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// Exit status of a server's program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramExit {
    /// Exit code of the program, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Reason why the program never ran, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_started: Option<NotStarted>,
}

/// Reason why a program never ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NotStarted {
    /// There is no such program in the image.
    Missing(String),
    /// The system refused to run it, for this reason.
    Failed(String),
    /// The pod runs as many programs as it may.
    Busy,
}

/// One frame of the bridge's protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeFrame {
    /// Kind of the frame's payload.
    pub kind: FrameKind,
    /// Payload of the frame.
    pub bytes: Vec<u8>,
}

/// Error of reading a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is of an unknown kind.
    #[error("a frame has the unknown kind {0}")]
    Kind(u8),
    /// The frame's header gives a length over the limit.
    #[error("a frame says that it has {0} bytes")]
    Long(u32),
}

/// Adds `bytes` to `to`, in as many frames as they need; one without bytes if there are none.
pub fn write_frames(kind: FrameKind, bytes: &[u8], to: &mut Vec<u8>) {
    let mut rest = bytes;
    loop {
        let (part, behind) = rest.split_at(rest.len().min(MOST_FRAME));
        to.push(kind as u8);
        to.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        to.extend(part);
        rest = behind;
        if rest.is_empty() {
            return;
        }
    }
}

/// Puts frames together from the pieces in which they arrive.
#[derive(Clone, Debug, Default)]
pub struct FrameReader {
    rest: Vec<u8>,
}

impl FrameReader {
    /// Takes in what has arrived; answers the frames that are complete with it.
    ///
    /// # Errors
    /// When it is no frame. Nothing of the connection can be used then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<BridgeFrame>, FrameError> {
        self.rest.extend(bytes);
        let (mut frames, mut at) = (Vec::new(), 0);
        while let Some(&[kind, a, b, c, d]) = self.rest.get(at..at + HEAD) {
            let kind = FrameKind::read(kind).ok_or(FrameError::Kind(kind))?;
            let said = u32::from_be_bytes([a, b, c, d]);
            let length = usize::try_from(said).ok().filter(|length| *length <= MOST_FRAME);
            let length = length.ok_or(FrameError::Long(said))?;
            let Some(bytes) = self.rest.get(at + HEAD..at + HEAD + length) else { break };
            frames.push(BridgeFrame { kind, bytes: bytes.to_vec() });
            at += HEAD + length;
        }
        self.rest.drain(..at);
        Ok(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_pieces() {
        let long: Vec<u8> = (0..MOST_FRAME + 3).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let mut sent = Vec::new();
        write_frames(FrameKind::Start, b"", &mut sent);
        write_frames(FrameKind::Output, &long, &mut sent);
        write_frames(FrameKind::Exit, b"{}", &mut sent);
        for piece in [1, 4, 7, 4096, sent.len()] {
            let mut reader = FrameReader::default();
            let mut frames = Vec::new();
            for bytes in sent.chunks(piece) {
                frames.extend(reader.push(bytes).unwrap());
            }
            let kinds: Vec<_> = frames.iter().map(|frame| frame.kind).collect();
            let wanted = [FrameKind::Start, FrameKind::Output, FrameKind::Output, FrameKind::Exit];
            assert_eq!(kinds, wanted, "in pieces of {piece}");
            let output: Vec<u8> = frames[1..3].iter().flat_map(|f| f.bytes.clone()).collect();
            assert_eq!(output, long);
            assert_eq!(frames[3].bytes, b"{}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_it_is_kept() {
        let push = |bytes: &[u8]| FrameReader::default().push(bytes);
        assert_eq!(push(&[9, 0, 0, 0, 0]), Err(FrameError::Kind(9)));
        assert_eq!(push(b"\x03\xff\xff\xff\xff"), Err(FrameError::Long(u32::MAX)));
        assert_eq!(push(&[3, 0, 1]), Ok(Vec::new()));
        for kind in FrameKind::ALL {
            let mut sent = Vec::new();
            write_frames(kind, b"x", &mut sent);
            assert_eq!(push(&sent).unwrap()[0].kind, kind);
        }
    }
}
