//! How a model takes recordings.

/// A model's way with sound, where its list says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelHearing {
    /// It is there to write recordings down.
    Transcribes,
    /// It takes recordings in a chat.
    Chats,
}
