//! Pictures and sounds that a model's provider refuses. A refusal does not always say which of them it is about, and
//! a model can take one kind and not the other.

use serde_json::Value;

use super::has_sound;

/// Words of refusals that are about pictures, about sounds, or about any of them.
const OF_PICTURES: [&str; 3] = ["image", "picture", "vision"];
const OF_SOUNDS: [&str; 1] = ["audio"];
const OF_ANY: [&str; 2] = ["multimodal", "multi-modal"];
/// Words of servers that take text alone, and say so of the list of parts in which anything else is sent: Ollama's and
/// others'.
const OF_PARTS: [&str; 3] =
    ["cannot unmarshal array", "(not \"list\")", "should be a valid string"];

/// Kinds of content that are no text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaKinds {
    pub pictures: bool,
    pub sounds: bool,
}

impl MediaKinds {
    /// Kinds that a conversation holds.
    pub fn held(chat: &[Value]) -> Self {
        let mut held = Self::default();
        for message in chat.iter().filter(|message| message["content"].is_array()) {
            let is_sound = has_sound(message);
            held.sounds |= is_sound;
            held.pictures |= !is_sound;
        }
        held
    }

    /// Kinds that a refusal speaks of.
    pub fn named(words: &str) -> Self {
        let words = words.to_lowercase();
        let names = |known: &[&str]| known.iter().any(|word| words.contains(word));
        let any = names(&OF_ANY) || names(&OF_PARTS);
        Self { pictures: any || names(&OF_PICTURES), sounds: any || names(&OF_SOUNDS) }
    }

    /// True if there is no kind.
    pub const fn is_empty(self) -> bool {
        !self.pictures && !self.sounds
    }
}

/// Kinds to leave out after a refusal with these words, one try after another. `shown`: the kinds that were sent.
pub fn plan_tries(words: &str, shown: MediaKinds) -> Vec<MediaKinds> {
    let named = MediaKinds::named(words);
    if named.is_empty() || shown.is_empty() {
        return Vec::new();
    }
    let (pictures, sounds) = (named.pictures && shown.pictures, named.sounds && shown.sounds);
    let first = match (pictures, sounds) {
        // Fewer models hear than see.
        (true, true) => MediaKinds { pictures: false, sounds: true },
        (false, false) => shown,
        (pictures, sounds) => MediaKinds { pictures, sounds },
    };
    let rest = (first != shown).then_some(shown);
    [first].into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{picture_message, user_message};
    use super::*;

    const NONE: MediaKinds = MediaKinds { pictures: false, sounds: false };
    const PICTURES: MediaKinds = MediaKinds { pictures: true, sounds: false };
    const SOUNDS: MediaKinds = MediaKinds { pictures: false, sounds: true };
    const BOTH: MediaKinds = MediaKinds { pictures: true, sounds: true };

    #[test]
    fn a_lost_call_says_nothing_of_pictures() {
        assert!(MediaKinds::named("No endpoints found that support image input").pictures);
        let lost = MediaKinds::named("the provider can't be reached: connection reset");
        assert!(lost.is_empty());
    }

    #[test]
    fn a_conversation_holds_pictures_and_sounds() {
        let text = user_message("hello");
        let picture = picture_message("a", "data:image/png;base64,AA==");
        let sound = picture_message("b", "data:audio/mp3;base64,AA==");
        let held = |chat: &[&Value]| {
            MediaKinds::held(&chat.iter().map(|one| (*one).clone()).collect::<Vec<_>>())
        };
        assert_eq!(held(&[&text]), NONE);
        assert_eq!(held(&[&text, &picture]), PICTURES);
        assert_eq!(held(&[&sound, &text]), SOUNDS);
        assert_eq!(held(&[&sound, &picture]), BOTH);
    }

    #[test]
    fn what_a_refusal_names_is_left_out_first() {
        let (image, audio) = (
            "No endpoints found that support image input",
            "No endpoints found that support input audio",
        );
        let any = "this model is not multimodal";
        let parts = "json: cannot unmarshal array into Go struct field Message.messages.content of type string";
        for (words, shown, tries) in [
            (image, PICTURES, vec![PICTURES]),
            (image, BOTH, vec![PICTURES, BOTH]),
            (audio, BOTH, vec![SOUNDS, BOTH]),
            (audio, SOUNDS, vec![SOUNDS]),
            (any, BOTH, vec![SOUNDS, BOTH]),
            (any, PICTURES, vec![PICTURES]),
            (parts, PICTURES, vec![PICTURES]),
            (parts, NONE, vec![]),
            // Its words are not to be relied upon.
            (image, SOUNDS, vec![SOUNDS]),
            (image, NONE, vec![]),
            ("the model is overloaded", BOTH, vec![]),
        ] {
            assert_eq!(plan_tries(words, shown), tries, "{words}: {shown:?}");
        }
    }
}
