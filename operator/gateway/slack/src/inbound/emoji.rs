//! Reactions with a meaning, such as thumbs.

use codebutler_crds::SlackTs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EmojiSign {
    /// A thumb: true for up, false for down.
    Thumb(bool),
    Stop,
}

impl EmojiSign {
    /// The meaning of an emoji's name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        match name.split("::").next() {
            Some("octagonal_sign" | "hand" | "raised_hand") => Some(Self::Stop),
            // The colour of the hand is ignored.
            Some("+1" | "thumbsup") => Some(Self::Thumb(true)),
            Some("-1" | "thumbsdown") => Some(Self::Thumb(false)),
            _ => None,
        }
    }
}

/// An emoji that means something, on a message of a Repo's channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmojiReaction {
    pub message: SlackTs,
    pub sign: EmojiSign,
    pub user: String,
    /// True if the message can be CodeButler's own.
    pub on_ours: bool,
    pub at: SlackTs,
}
