//! Pictures and sounds that a model's provider refuses. A refusal does not always say which of them it is about, and
//! a model can take one kind and not the other.

use serde_json::Value;

use super::{PICTURES, has_sound};

/// Words of refusals that are about pictures, about sounds, or about any of them.
const OF_PICTURES: [&str; 3] = ["image", "picture", "vision"];
const OF_SOUNDS: [&str; 1] = ["audio"];
const OF_ANY: [&str; 2] = ["multimodal", "multi-modal"];
/// Words of servers that take text alone, and say so of the list of parts in which anything else is sent: Ollama's and
/// others'.
const OF_PARTS: [&str; 3] =
    ["cannot unmarshal array", "(not \"list\")", "should be a valid string"];
/// Words of refusals that say that a model is shown no pictures at all, as the gateway and servers say it.
const OF_BLINDNESS: [&str; 14] = [
    "can't be shown pictures",
    "support image",
    "support vision",
    "image input",
    "images are not supported",
    "no vision",
    "not a vision",
    "text-only",
    "text only",
    "only text",
    "supports text",
    "image_url is only",
    "variant `image_url`",
    "mmproj",
];
/// Words of refusals that are about one picture, by which no model is known to be blind.
const OF_ONE: [&str; 17] = [
    "valid image",
    "image data",
    "image format",
    "formats",
    "mime",
    "media type",
    "dimension",
    "exceeds",
    "too large",
    "too small",
    "could not process",
    "unable to process",
    "cannot identify",
    "failed to load",
    "failed to decode",
    "loading multimodal",
    "can't use a picture",
];
/// Words of refusals that are about the number of pictures.
const OF_NUMBER: [&str; 5] = [
    "image(s) may be provided",
    "too many image",
    "number of images",
    "images per",
    "image items in",
];
/// Words of vLLM where it is set up to take no picture.
const OF_NONE: [&str; 1] = ["at most 0 image"];
/// Words of refusals that are about the bytes of a request, of which pictures have most: those of servers and of proxies
/// before them.
const OF_BYTES: [&str; 5] = [
    "entity too large",
    "payload too large",
    "content too large",
    "request_too_large",
    "request exceeds the maximum size",
];

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

/// Media that are left out of a request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOutMedia {
    /// All of these kinds, which the model can't take.
    Kinds(MediaKinds),
    /// These pictures, of which 0 is the newest.
    Pictures(Vec<usize>),
}

/// Media to leave out after a refusal with these words, one try after another. `shown`: the kinds that were sent, among
/// them so many `pictures`.
pub fn plan_tries(words: &str, shown: MediaKinds, pictures: usize) -> Vec<LeftOutMedia> {
    if shown.pictures && is_about_bytes(words) {
        return plan_pictures("", MediaKinds { sounds: false, ..shown }, pictures);
    }
    let named = MediaKinds::named(words);
    if named.is_empty() || shown.is_empty() {
        return Vec::new();
    }
    let words = words.to_lowercase();
    if named.pictures && shown.pictures && !is_blindness(&words) {
        return plan_pictures(&words, shown, pictures);
    }
    let (pictures, sounds) = (named.pictures && shown.pictures, named.sounds && shown.sounds);
    let first = match (pictures, sounds) {
        // Fewer models hear than see.
        (true, true) => MediaKinds { pictures: false, sounds: true },
        (false, false) => shown,
        (pictures, sounds) => MediaKinds { pictures, sounds },
    };
    let rest = (first != shown).then_some(shown);
    [first].into_iter().chain(rest).map(LeftOutMedia::Kinds).collect()
}

/// True for a refusal that may be about a picture or a sound.
pub fn is_about_media(words: &str) -> bool {
    is_about_bytes(words) || !MediaKinds::named(words).is_empty()
}

/// True for a refusal that is about the bytes of a request, and not about its tokens.
pub fn is_about_bytes(words: &str) -> bool {
    let words = words.to_lowercase();
    OF_BYTES.iter().any(|word| words.contains(word))
}

/// True for words that say that a model can't be shown any picture.
fn is_blindness(words: &str) -> bool {
    let says = |known: &[&str]| known.iter().any(|word| words.contains(word));
    let is_known = says(&OF_BLINDNESS) || says(&OF_ANY) || says(&OF_PARTS);
    says(&OF_NONE) || (is_known && !says(&OF_ONE) && !says(&OF_NUMBER))
}

/// Each picture by itself, the newest first, and then all. Where they are too many, the oldest go.
fn plan_pictures(words: &str, shown: MediaKinds, pictures: usize) -> Vec<LeftOutMedia> {
    let count = pictures.clamp(1, PICTURES);
    let all: Vec<usize> = (0..count).collect();
    let mut tries: Vec<Vec<usize>> = if OF_NUMBER.iter().any(|word| words.contains(word)) {
        (1..count).rev().map(|kept| (kept..count).collect()).collect()
    } else {
        all.iter().map(|one| vec![*one]).collect()
    };
    if tries.last() != Some(&all) {
        tries.push(all);
    }
    let rest = shown.sounds.then_some(LeftOutMedia::Kinds(shown));
    tries.into_iter().map(LeftOutMedia::Pictures).chain(rest).collect()
}

/// Number of pictures that a conversation holds.
pub fn count_pictures(chat: &[Value]) -> usize {
    chat.iter().filter(|message| holds_picture(message)).count()
}

/// Puts words in the place of pictures that a provider has refused. 0 is the newest one.
pub fn refuse_pictures(chat: &mut [Value], newest: &[usize], why: &str) {
    let held = chat.iter_mut().rev().filter(|message| holds_picture(message)).enumerate();
    for (_, message) in held.filter(|(place, _)| newest.contains(place)) {
        let parts = message["content"].as_array().into_iter().flatten();
        let text = parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join(" ");
        message["content"] = Value::String(format!(
            "{text} [the provider of the model refused this picture, so you do not see it: {why}]"
        ));
    }
}

fn holds_picture(message: &Value) -> bool {
    message["content"].is_array() && !has_sound(message)
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
            let tries: Vec<_> = tries.into_iter().map(LeftOutMedia::Kinds).collect();
            assert_eq!(plan_tries(words, shown, 1), tries, "{words}: {shown:?}");
        }
    }

    #[test]
    fn a_model_is_blind_only_where_the_refusal_says_so() {
        for words in [
            "the model `m` can't be shown pictures there. The provider says: no",
            "No endpoints found that support image input",
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            "Failed to process inputs: this model is missing data required for image input",
            "messages[1].content: unknown variant `image_url`, expected `text`",
            "m is not a multimodal model",
            "At most 0 image(s) may be provided in one prompt.",
            "This model does not support images.",
        ] {
            let tries = plan_tries(words, PICTURES, 3);
            assert_eq!(tries, [LeftOutMedia::Kinds(PICTURES)], "{words}");
        }
        let each = [vec![0], vec![1], vec![2], vec![0, 1, 2]].map(LeftOutMedia::Pictures);
        for words in [
            "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
            "At least one of the image dimensions exceed max allowed size: 8000 pixels",
            "Could not process image",
            "You uploaded an unsupported image. Please make sure your image is valid.",
            "Unsupported MIME type: image/gif. This model does not support image/gif",
            "cannot identify image file <_io.BytesIO object at 0x7f>",
            "An exception occurred while loading multimodal data: cannot identify image file",
            "the provider of `m` can't use a picture (image) of this conversation",
        ] {
            assert_eq!(plan_tries(words, PICTURES, 3), each, "{words}");
        }
        assert_eq!(
            plan_tries("Could not process image", BOTH, 1),
            [LeftOutMedia::Pictures(vec![0]), LeftOutMedia::Kinds(BOTH)]
        );
    }

    #[test]
    fn a_request_of_too_many_bytes_is_sent_without_a_picture() {
        let each = [vec![0], vec![1], vec![0, 1]].map(LeftOutMedia::Pictures);
        for words in [
            "the conversation is longer than the model `m` takes. The provider says: 413 Request Entity Too Large",
            "Request exceeds the maximum size",
        ] {
            assert_eq!(plan_tries(words, BOTH, 2), each, "{words}");
            assert!(plan_tries(words, SOUNDS, 0).is_empty(), "{words}");
            assert!(is_about_media(words));
        }
        let tokens = "Request too large for model `m` on tokens per minute (TPM): Limit 6000";
        assert!(!is_about_media(tokens) && plan_tries(tokens, PICTURES, 2).is_empty());
    }

    #[test]
    fn of_too_many_pictures_the_oldest_go() {
        let tries = [vec![2], vec![1, 2], vec![0, 1, 2]].map(LeftOutMedia::Pictures);
        let words = "At most 1 image(s) may be provided in one prompt.";
        assert_eq!(plan_tries(words, PICTURES, 3), tries);
        assert_eq!(plan_tries(words, PICTURES, 1), [LeftOutMedia::Pictures(vec![0])]);
    }

    #[test]
    fn words_stand_in_the_place_of_a_refused_picture() {
        let picture = |name: &str| picture_message(name, "data:image/png;base64,AA==");
        let sound = picture_message("s", "data:audio/mp3;base64,AA==");
        let mut chat = [picture("a"), sound.clone(), picture("b"), user_message("hello")];
        assert_eq!(count_pictures(&chat), 2);
        refuse_pictures(&mut chat, &[1, 7], "too large");
        let told = chat[0]["content"].as_str().unwrap();
        assert!(told.starts_with("a [") && told.ends_with(": too large]"), "{told}");
        assert_eq!(chat[1..], [sound, picture("b"), user_message("hello")]);
        assert_eq!(count_pictures(&chat), 1);
    }
}
