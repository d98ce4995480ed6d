//! Ways in which models take recordings.

/// A model's way with sound, where its list says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelHearing {
    /// The model is there to write recordings down.
    Transcribes,
    /// The model takes recordings in a chat.
    Chats,
}
