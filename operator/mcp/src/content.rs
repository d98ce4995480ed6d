//! Results as servers write them, read item by item: an item of an unknown or broken form becomes a note, and the
//! rest is kept.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde_json::{Map, Value};

/// Subtypes of `application` that are words. Servers that know no better send small text files as `octet-stream`.
const TEXTS: [&str; 15] = [
    "ecmascript",
    "graphql",
    "javascript",
    "json",
    "ndjson",
    "octet-stream",
    "sql",
    "toml",
    "typescript",
    "x-javascript",
    "x-ndjson",
    "x-sh",
    "x-yaml",
    "xml",
    "yaml",
];
/// Items of one result that are read.
const ITEMS: usize = 1000;

/// Answer of a tool, or contents of a resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// Content items, in the server's order.
    pub items: Vec<ContentItem>,
    /// The result as data, where the tool has a schema for it.
    pub structured: Option<Value>,
    /// The tool failed: its words say why.
    pub is_error: bool,
}

/// One content item of a result or prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentItem {
    pub body: ContentBody,
    /// The server means it for people only.
    pub is_for_people: bool,
}

/// Payload of a content item.
#[derive(Clone, Debug, PartialEq)]
pub enum ContentBody {
    /// Plain text.
    Text(String),
    /// A picture, a sound or another file.
    Binary {
        /// Media type, as the server says it.
        media_type: String,
        /// The decoded bytes.
        data: Vec<u8>,
        /// Address, for an embedded resource.
        uri: Option<String>,
    },
    /// Words of an embedded resource.
    Embedded {
        /// URI of the resource.
        uri: String,
        /// Text of the resource.
        text: String,
    },
    /// A resource that can be read with another request.
    Link {
        /// URI to read the resource by.
        uri: String,
        name: String,
        description: Option<String>,
    },
    /// A piece that can't be used, and why.
    Unusable(String),
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptMessage {
    /// True if the message counts as the model's own words.
    pub is_assistant: bool,
    pub body: ContentBody,
}

impl ToolResult {
    /// Reads the answer to `tools/call`.
    pub(crate) fn read(mut result: Value) -> Self {
        // The form of 2024-10-07 had one value here.
        if let Some(old) = result.get("toolResult").filter(|_| result.get("content").is_none()) {
            let text = old.as_str().map_or_else(|| old.to_string(), str::to_owned);
            let item = ContentItem { body: ContentBody::Text(text), is_for_people: false };
            return Self { items: vec![item], ..Self::default() };
        }
        let structured =
            result.get_mut("structuredContent").map(Value::take).filter(|value| !value.is_null());
        let is_error =
            result.get("isError").is_some_and(|flag| *flag == Value::Bool(true) || flag == "true");
        let items = match result.get("content") {
            Some(Value::Array(items)) => read_items(items),
            Some(Value::Null) | None => Vec::new(),
            // Some servers write a single item, or its text, without a list.
            Some(other) => read_items(std::slice::from_ref(other)),
        };
        Self { items, structured, is_error }
    }

    /// Reads the answer to `resources/read`.
    pub(crate) fn read_resource(result: &Value) -> Self {
        let contents =
            result.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let read = |item: &Value| {
            let body = item.as_object().map_or_else(|| unusable("it is no object"), read_embedded);
            ContentItem { body, is_for_people: false }
        };
        Self { items: contents.iter().take(ITEMS).map(read).collect(), ..Self::default() }
    }
}

impl PromptMessage {
    pub(crate) fn read_all(result: &Value) -> Vec<Self> {
        let messages =
            result.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let read = |message: &Value| Self {
            is_assistant: message.get("role").and_then(Value::as_str) == Some("assistant"),
            body: message.get("content").map_or_else(|| unusable("it has no content"), read_body),
        };
        messages.iter().take(ITEMS).map(read).collect()
    }
}

fn read_items(items: &[Value]) -> Vec<ContentItem> {
    let mut read: Vec<ContentItem> = items.iter().take(ITEMS).map(read_item).collect();
    if items.len() > ITEMS {
        let left = items.len() - ITEMS;
        let body = unusable(&format!("{left} more pieces are left out"));
        read.push(ContentItem { body, is_for_people: false });
    }
    read
}

fn read_item(item: &Value) -> ContentItem {
    let audience = item.pointer("/annotations/audience").and_then(Value::as_array);
    let is_for_people = audience
        .is_some_and(|audience| !audience.is_empty() && audience.iter().all(|one| one == "user"));
    ContentItem { body: read_body(item), is_for_people }
}

fn read_body(item: &Value) -> ContentBody {
    if let Value::String(text) = item {
        return ContentBody::Text(text.clone());
    }
    let Value::Object(fields) = item else {
        return unusable("it is neither words nor an object");
    };
    let text_at = |key: &str| fields.get(key).and_then(Value::as_str);
    match text_at("type").unwrap_or(if fields.contains_key("text") { "text" } else { "" }) {
        "text" => match fields.get("text") {
            Some(Value::String(text)) => ContentBody::Text(text.clone()),
            Some(Value::Null) | None => unusable("words without a `text`"),
            Some(other) => ContentBody::Text(other.to_string()),
        },
        kind @ ("image" | "audio") => match text_at("data").and_then(decode_base64) {
            Some(data) => {
                let media_type = text_at("mimeType").unwrap_or(kind).to_owned();
                // No model sees a drawing of this type, and each can read it.
                match String::from_utf8(data) {
                    Ok(text) if media_type.starts_with("image/svg") => ContentBody::Text(text),
                    Ok(text) => {
                        ContentBody::Binary { media_type, data: text.into_bytes(), uri: None }
                    }
                    Err(error) => {
                        ContentBody::Binary { media_type, data: error.into_bytes(), uri: None }
                    }
                }
            }
            None => unusable(&format!("{kind} without readable data")),
        },
        "resource" => match fields.get("resource") {
            Some(Value::Object(resource)) => read_embedded(resource),
            _ => unusable("an embedded resource without content"),
        },
        "resource_link" => match text_at("uri") {
            Some(uri) => ContentBody::Link {
                uri: uri.to_owned(),
                name: text_at("title").or_else(|| text_at("name")).unwrap_or(uri).to_owned(),
                description: text_at("description").map(str::to_owned),
            },
            None => unusable("a link without an address"),
        },
        "" => unusable("a piece without a type"),
        kind => unusable(&format!(
            "a piece of the unknown type `{}`",
            kind.chars().take(40).collect::<String>()
        )),
    }
}

fn read_embedded(resource: &Map<String, Value>) -> ContentBody {
    let text_at = |key: &str| resource.get(key).and_then(Value::as_str);
    let uri = text_at("uri").unwrap_or_default().to_owned();
    if let Some(text) = text_at("text") {
        return ContentBody::Embedded { uri, text: text.to_owned() };
    }
    let Some(data) = text_at("blob").and_then(decode_base64) else {
        return unusable("an embedded resource with neither words nor readable data");
    };
    let media_type = text_at("mimeType").unwrap_or("application/octet-stream").to_owned();
    let is_text = is_text_type(&media_type);
    match String::from_utf8(data) {
        Ok(text) if is_text && !text.contains('\0') => ContentBody::Embedded { uri, text },
        Ok(text) => ContentBody::Binary { media_type, data: text.into_bytes(), uri: Some(uri) },
        Err(error) => ContentBody::Binary { media_type, data: error.into_bytes(), uri: Some(uri) },
    }
}

/// True for a type whose files are read as words, if they are words.
fn is_text_type(media_type: &str) -> bool {
    let name = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name.starts_with("text/")
        || name.starts_with("image/svg")
        || ["+json", "+xml", "+yaml"].iter().any(|end| name.ends_with(*end))
        || name.strip_prefix("application/").is_some_and(|kind| TEXTS.contains(&kind))
}

fn unusable(reason: &str) -> ContentBody {
    ContentBody::Unusable(reason.to_owned())
}

/// Decodes base64 leniently: with line breaks, without padding, in the alphabet of URLs (as Pydantic writes bytes),
/// and as a `data:` URL.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text = match text.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,")?.1,
        None => text,
    };
    let usual = |letter| match letter {
        '-' => '+',
        '_' => '/',
        letter => letter,
    };
    let clean: String =
        text.chars().filter(|letter| !letter.is_ascii_whitespace()).map(usual).collect();
    STANDARD.decode(&clean).or_else(|_| STANDARD_NO_PAD.decode(&clean)).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bodies(result: Value) -> Vec<ContentBody> {
        ToolResult::read(result).items.into_iter().map(|item| item.body).collect()
    }

    #[test]
    fn a_broken_piece_costs_only_itself() {
        let read = bodies(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "text"},
            {"type": "hologram", "data": "x"},
            7,
            "bare words",
            {"text": "no type"},
            {"type": "image", "data": "%%%", "mimeType": "image/png"},
            {"type": "image", "data": "data:image/png;base64,aGk=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            {"type": "text", "text": {"rows": 2}},
        ]}));
        let text = |text: &str| ContentBody::Text(text.to_owned());
        assert_eq!(read[0], text("one"));
        assert_eq!(read[1], unusable("words without a `text`"));
        assert_eq!(read[2], unusable("a piece of the unknown type `hologram`"));
        assert!(
            matches!(read[3], ContentBody::Unusable(_))
                && matches!(read[6], ContentBody::Unusable(_))
        );
        assert_eq!((&read[4], &read[5]), (&text("bare words"), &text("no type")));
        let image =
            ContentBody::Binary { media_type: "image/png".into(), data: b"hi".to_vec(), uri: None };
        assert_eq!(read[7], image);
        assert!(matches!(&read[8], ContentBody::Link { uri, .. } if uri == "file:///a"));
        assert_eq!(read[9], text("{\"rows\":2}"));
    }

    #[test]
    fn results_without_a_list_are_read_too() {
        assert_eq!(bodies(json!({"content": "words"})), [ContentBody::Text("words".into())]);
        assert_eq!(bodies(json!({"toolResult": [1]})), [ContentBody::Text("[1]".into())]);
        let only = ToolResult::read(json!({"structuredContent": [1, 2], "isError": true}));
        assert_eq!(
            (only.items.len(), only.structured, only.is_error),
            (0, Some(json!([1, 2])), true)
        );
        let null = ToolResult::read(json!({"content": null, "structuredContent": null}));
        assert_eq!(null, ToolResult::default());
        assert_eq!(ToolResult::read(json!(null)), ToolResult::default());
    }

    #[test]
    fn a_small_text_file_is_words_whatever_its_media_type() {
        let blob = |media: &str, data: &[u8]| json!({"contents": [{"uri": "u", "mimeType": media, "blob": STANDARD.encode(data)}]});
        let read = |value: Value| ToolResult::read_resource(&value).items.remove(0).body;
        let words = ContentBody::Embedded { uri: "u".into(), text: "hi".into() };
        assert_eq!(read(blob("application/octet-stream", b"hi")), words);
        // A regression: only three types were words, and none with parameters.
        for kind in [
            "text/plain; charset=utf-8",
            "application/json; charset=utf-8",
            "application/yaml",
            "application/vnd.api+json",
            "Application/JavaScript",
        ] {
            assert_eq!(read(blob(kind, b"hi")), words, "{kind}");
        }
        assert!(matches!(
            read(blob("application/octet-stream", b"a\0b")),
            ContentBody::Binary { .. }
        ));
        assert!(matches!(read(blob("image/png", b"hi")), ContentBody::Binary { .. }));
        assert!(matches!(read(blob("text/plain", b"\xff")), ContentBody::Binary { .. }));
    }

    /// A regression: a chart of a server that draws as SVG was left out, and bytes that Pydantic wrote could not be read.
    #[test]
    fn a_drawing_is_read_as_words_and_base64_in_both_alphabets() {
        let svg = json!({"type": "image", "mimeType": "image/svg+xml", "data": STANDARD.encode("<svg/>")});
        let read = bodies(json!({"content": [
            svg,
            {"type": "image", "mimeType": "image/png", "data": "-_-_"},
            {"type": "image", "mimeType": "image/png", "data": "aGk="},
        ]}));
        assert_eq!(read[0], ContentBody::Text("<svg/>".into()));
        let image = |data: &[u8]| ContentBody::Binary {
            media_type: "image/png".into(),
            data: data.into(),
            uri: None,
        };
        assert_eq!((&read[1], &read[2]), (&image(&[0xfb, 0xff, 0xbf]), &image(b"hi")));
    }

    #[test]
    fn pieces_for_people_only_are_marked() {
        let item = |audience: Value| {
            read_item(&json!({"type": "text", "text": "x", "annotations": {"audience": audience}}))
        };
        assert!(item(json!(["user"])).is_for_people);
        assert!(!item(json!(["user", "assistant"])).is_for_people);
        assert!(!item(json!([])).is_for_people && !item(json!("user")).is_for_people);
    }
}
