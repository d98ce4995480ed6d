//! Results in the form in which a model gets them: words, and pictures where it can see. Everything else becomes a
//! note, and words that are too long are cut, with the whole beside them.

use codebutler_mcp_file::clean_text;
use serde_json::Value;

use crate::content::{ContentBody, ToolResult};

/// Kinds of content that a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelAbilities {
    /// True if the model accepts images.
    pub images: bool,
    /// True if the model accepts audio.
    pub audio: bool,
}

/// Size limits for the parts of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLimits {
    /// Bytes of all words together.
    pub text_bytes: usize,
    /// Bytes of one picture or sound.
    pub media_bytes: usize,
    /// Most pictures and sounds together.
    pub media: usize,
}

impl Default for PartLimits {
    fn default() -> Self {
        Self { text_bytes: 30_000, media_bytes: 5 << 20, media: 8 }
    }
}

/// People who read a thread: they are shown words and pictures, and not much of either.
const PEOPLE: ModelAbilities = ModelAbilities { images: true, audio: false };
const PEOPLE_LIMITS: PartLimits = PartLimits { text_bytes: 3_000, media_bytes: 5 << 20, media: 4 };

/// A part of a result, in a form that a model takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultPart {
    Text(String),
    /// A picture of a type that models know.
    Image {
        /// Media type found from the bytes, whatever the server says.
        media_type: &'static str,
        data: Vec<u8>,
    },
    /// A sound of a type that models know.
    Audio {
        /// Media type found from the bytes, whatever the server says.
        media_type: &'static str,
        data: Vec<u8>,
    },
}

/// A tool's result, made fit for a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultParts {
    /// Parts for the model. Their words are untrusted: fence and mask them.
    pub parts: Vec<ResultPart>,
    /// Full text, where the model gets only a part of it: to be kept in a file.
    pub whole: Option<String>,
    /// Words and pictures that the server meant for people only.
    pub for_people: Vec<ResultPart>,
    /// True if the tool failed.
    pub is_error: bool,
}

/// Turns a tool's result into parts that the model accepts.
pub fn parts_for_model(
    result: &ToolResult,
    abilities: ModelAbilities,
    limits: PartLimits,
) -> ResultParts {
    let mut builder = PartsBuilder::new(abilities, limits);
    let mut people = PartsBuilder::new(PEOPLE, PEOPLE_LIMITS);
    for item in &result.items {
        let reader = if item.is_for_people { &mut people } else { &mut builder };
        reader.add(&item.body);
    }
    if let Some(structured) = &result.structured
        && !repeats(result, structured)
    {
        builder.add_text(&structured.to_string());
    }
    if builder.parts.is_empty() {
        builder.add_text("(the tool answered nothing)");
    }
    let for_people = people.finish(false).parts;
    ResultParts { for_people, ..builder.finish(result.is_error) }
}

/// Servers repeat data as words for older clients: a model needs it once.
fn repeats(result: &ToolResult, structured: &Value) -> bool {
    let texts: Vec<&str> = result
        .items
        .iter()
        .filter_map(|item| match &item.body {
            ContentBody::Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    // Python's SDK wraps values that are no objects, and writes one piece for each entry of a list.
    let inner = structured
        .as_object()
        .filter(|object| object.len() == 1)
        .and_then(|object| object.get("result"));
    let is_same = |text: &str, value: &Value| {
        value.as_str() == Some(text)
            || serde_json::from_str::<Value>(text).is_ok_and(|read| read == *value)
    };
    let in_one = |value: &Value| texts.iter().any(|text| is_same(text, value));
    let in_pieces = |value: &Value| {
        value.as_array().is_some_and(|entries| {
            // An empty list has no piece that says so.
            !entries.is_empty()
                && entries.len() == texts.len()
                && entries.iter().zip(&texts).all(|(entry, text)| is_same(text, entry))
        })
    };
    let nothing = inner.is_some_and(Value::is_null);
    let strings_inside = structured.as_object().is_some_and(|object| {
        !object.is_empty()
            && object.values().all(|value| value.as_str().is_some_and(|text| texts.contains(&text)))
    });
    nothing
        || in_one(structured)
        || strings_inside
        || inner.is_some_and(|inner| in_one(inner) || in_pieces(inner))
}

struct PartsBuilder {
    abilities: ModelAbilities,
    limits: PartLimits,
    parts: Vec<ResultPart>,
    media: usize,
}

impl PartsBuilder {
    const fn new(abilities: ModelAbilities, limits: PartLimits) -> Self {
        Self { abilities, limits, parts: Vec::new(), media: 0 }
    }

    fn add(&mut self, body: &ContentBody) {
        match body {
            ContentBody::Text(text) => self.add_text(text),
            ContentBody::Embedded { uri, text } => self.add_text(&format!("[{uri}]\n{text}")),
            ContentBody::Link { uri, name, description } => {
                let about =
                    description.as_deref().map(|about| format!(": {about}")).unwrap_or_default();
                self.add_text(&format!("[link to {name}{about}; read it as resource {uri}]"));
            }
            ContentBody::Unusable(reason) => self.add_text(&format!("[left out: {reason}]")),
            ContentBody::Binary { media_type, data, uri } => {
                self.add_binary(media_type, data, uri.as_deref());
            }
        }
    }

    fn add_text(&mut self, text: &str) {
        let text = clean_text(text);
        if text.is_empty() {
            return;
        }
        if let Some(ResultPart::Text(last)) = self.parts.last_mut() {
            last.push('\n');
            last.push_str(&text);
        } else {
            self.parts.push(ResultPart::Text(text));
        }
    }

    fn add_binary(&mut self, claimed: &str, data: &[u8], uri: Option<&str>) {
        let size = data.len();
        let place =
            uri.filter(|uri| !uri.is_empty()).map(|uri| format!(" {uri}")).unwrap_or_default();
        let about = format!("{claimed}{place}, {size} bytes");
        let kind = media_kind(data);
        let can_take = match kind {
            Some((_, true)) => self.abilities.images,
            Some((_, false)) => self.abilities.audio,
            None => {
                return self
                    .add_text(&format!("[left out: a file ({about}) that models can't take]"));
            }
        };
        if !can_take {
            return self.add_text(&format!("[left out: {about}; this model can't take it]"));
        }
        if size > self.limits.media_bytes || self.media >= self.limits.media {
            return self.add_text(&format!("[left out: {about}; that is more than fits here]"));
        }
        self.media += 1;
        let data = data.to_vec();
        self.parts.push(match kind {
            Some((media_type, true)) => ResultPart::Image { media_type, data },
            Some((media_type, false)) => ResultPart::Audio { media_type, data },
            None => return,
        });
    }

    fn finish(mut self, is_error: bool) -> ResultParts {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                ResultPart::Text(text) => Some(&**text),
                _ => None,
            })
            .collect();
        let all: usize = texts.iter().map(|text| text.len()).sum();
        let whole = (all > self.limits.text_bytes).then(|| texts.join("\n"));
        if whole.is_some() {
            let mut left = self.limits.text_bytes;
            for part in &mut self.parts {
                if let ResultPart::Text(text) = part {
                    *text = cut_middle(text, left);
                    left = left.saturating_sub(text.len());
                }
            }
        }
        ResultParts { parts: self.parts, whole, for_people: Vec::new(), is_error }
    }
}

/// Keeps the beginning and the end: errors tend to stand last.
fn cut_middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let (mut head, mut tail) = (limit * 2 / 3, text.len() - limit / 3);
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

/// Type by the first bytes, and whether it is a picture.
fn media_kind(data: &[u8]) -> Option<(&'static str, bool)> {
    let riff = |kind: &[u8]| data.starts_with(b"RIFF") && data.get(8..12) == Some(kind);
    Some(match data {
        [0x89, b'P', b'N', b'G', ..] => ("image/png", true),
        [0xFF, 0xD8, 0xFF, ..] => ("image/jpeg", true),
        [b'G', b'I', b'F', b'8', ..] => ("image/gif", true),
        _ if riff(b"WEBP") => ("image/webp", true),
        _ if riff(b"WAVE") => ("audio/wav", false),
        [b'I', b'D', b'3', ..] | [0xFF, 0xFB | 0xF3 | 0xF2, ..] => ("audio/mpeg", false),
        [b'O', b'g', b'g', b'S', ..] => ("audio/ogg", false),
        [b'f', b'L', b'a', b'C', ..] => ("audio/flac", false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: ModelAbilities = ModelAbilities { images: true, audio: true };
    const BLIND: ModelAbilities = ModelAbilities { images: false, audio: false };

    fn parts(result: Value, abilities: ModelAbilities) -> ResultParts {
        parts_for_model(&ToolResult::read(result), abilities, PartLimits::default())
    }

    fn text(result: Value) -> String {
        match &*parts(result, BLIND).parts {
            [ResultPart::Text(text)] => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn data_that_repeats_the_words_is_sent_once() {
        let content = |texts: &[&str]| -> Vec<Value> {
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect()
        };
        for (texts, structured, expected) in [
            (&["{\"a\": 1}"][..], json!({"a": 1}), "{\"a\": 1}"),
            (&["x", "y"], json!({"result": ["x", "y"]}), "x\ny"),
            (&["whole file"], json!({"content": "whole file"}), "whole file"),
            (&["5"], json!({"result": 5}), "5"),
            (&[], json!({"result": null}), "(the tool answered nothing)"),
            (&[], json!({"a": 1}), "{\"a\":1}"),
            (&[], json!({"result": []}), "{\"result\":[]}"),
            (
                &["1", "2", "3"],
                json!({"result": [[1, 2], [3]]}),
                "1\n2\n3\n{\"result\":[[1,2],[3]]}",
            ),
            (&["found 1"], json!({"rows": [1]}), "found 1\n{\"rows\":[1]}"),
        ] {
            let result = json!({"content": content(texts), "structuredContent": structured});
            assert_eq!(text(result), expected);
        }
    }

    #[test]
    fn a_model_gets_what_it_can_take_and_a_note_for_the_rest() {
        let png = "iVBORw0KGgo=";
        let result = json!({"content": [
            {"type": "text", "text": "see"},
            {"type": "image", "data": png, "mimeType": "image/jpeg"},
            {"type": "audio", "data": "T2dnUw==", "mimeType": "audio/ogg"},
            {"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"},
            {"type": "image", "data": "AAABAA==", "mimeType": "image/x-icon"},
            {"type": "text", "text": "secret for you", "annotations": {"audience": ["user"]}},
        ]});
        let all = parts(result.clone(), ALL);
        assert_eq!(all.for_people, [ResultPart::Text("secret for you".to_owned())]);
        let kinds: Vec<_> = all
            .parts
            .iter()
            .map(|part| match part {
                ResultPart::Text(text) => &**text,
                ResultPart::Image { media_type, .. } | ResultPart::Audio { media_type, .. } => {
                    media_type
                }
            })
            .collect();
        let texts = "<svg>\n[left out: a file (image/x-icon, 4 bytes) that models can't take]";
        assert_eq!(kinds, ["see", "image/png", "audio/ogg", texts]);
        let blind = text(result);
        assert!(
            blind.contains("[left out: image/jpeg, 8 bytes; this model can't take it]"),
            "{blind}"
        );
    }

    #[test]
    fn long_words_are_cut_in_the_middle_with_the_whole_beside_them() {
        let long = "é".repeat(40_000);
        let result = parts(json!({"content": [{"type": "text", "text": long}]}), BLIND);
        let [ResultPart::Text(short)] = &*result.parts else { panic!() };
        assert!(short.len() < 30_100 && short.contains("bytes left out"));
        assert_eq!(result.whole, Some(long));
        assert_eq!(parts(json!({"content": "short"}), BLIND).whole, None);
    }
}
