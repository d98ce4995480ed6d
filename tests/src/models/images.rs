//! OpenAI's images API and image output in chats: requests are checked as strictly as there, and answered with small
//! pictures that differ.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Fields of `POST /images/generations` for models that answer in base64.
const GENERATION: [&str; 9] = [
    "model",
    "prompt",
    "n",
    "size",
    "quality",
    "background",
    "output_format",
    "output_compression",
    "moderation",
];
/// Fields of `POST /images/edits` beside files.
const EDIT: [&str; 9] = [
    "model",
    "prompt",
    "n",
    "size",
    "quality",
    "background",
    "output_format",
    "output_compression",
    "input_fidelity",
];
const SIZES: [&str; 4] = ["1024x1024", "1536x1024", "1024x1536", "auto"];
pub(super) const QUALITIES: [&str; 4] = ["low", "medium", "high", "auto"];
pub(super) const BACKGROUNDS: [&str; 3] = ["transparent", "opaque", "auto"];
pub(super) const FORMATS: [&str; 3] = ["png", "jpeg", "webp"];
pub(super) const RATIOS: [&str; 10] =
    ["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"];
/// Longest prompt, in characters.
const LONGEST: usize = 32_000;
/// Tokens that an input image counts as.
const SENT: u64 = 323;
/// A prompt with this word is refused.
pub(super) const BLOCKED: &str = "forbidden";
/// A chat whose prompt has this word is answered without an image.
pub(super) const SPOKEN: &str = "unspeakable";
/// A prompt with this word gets something that only claims to be an image.
pub(super) const LYING: &str = "lying";

/// A transparent PNG of one pixel, in base64.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Refusal of a request with status 400.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ImageRefusal {
    pub kind: &'static str,
    pub code: &'static str,
    pub message: String,
    pub param: Option<String>,
}

impl ImageRefusal {
    fn invalid(code: &'static str, param: &str, message: String) -> Self {
        Self { kind: "invalid_request_error", code, message, param: Some(param.to_owned()) }
    }

    /// Body of the error response, as JSON.
    pub(super) fn body(&self) -> Value {
        let Self { kind, code, message, param } = self;
        json!({"error": {"message": message, "type": kind, "param": param, "code": code}})
    }
}

/// An image request that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImageCall {
    pub prompt: String,
    pub count: u64,
    pub size: String,
    pub quality: String,
    /// Number of images that were sent along.
    pub sent: u64,
}

impl ImageCall {
    /// Tokens of the generated images, as OpenAI counts them.
    pub(super) fn tokens(&self) -> u64 {
        let wide = matches!(self.size.as_str(), "1536x1024" | "1024x1536");
        let each = match (self.quality.as_str(), wide) {
            ("low", false) => 272,
            ("low", true) => 408,
            ("high", false) => 4_160,
            ("high", true) => 6_240,
            (_, false) => 1_056,
            (_, true) => 1_584,
        };
        self.count * each
    }

    /// Cost of all images that a proxy names, in thousandths of a dollar.
    pub(super) fn thousandths(&self) -> u64 {
        let each = match self.quality.as_str() {
            "low" => 11,
            "high" => 167,
            _ => 40,
        };
        self.count * each
    }

    /// Token usage, as OpenAI reports it.
    pub(super) fn usage(&self) -> Value {
        let words = u64::try_from(self.prompt.len().div_ceil(4)).unwrap_or(u64::MAX);
        let (images, made) = (self.sent * SENT, self.tokens());
        json!({
            "total_tokens": words + images + made, "input_tokens": words + images, "output_tokens": made,
            "input_tokens_details": {"text_tokens": words, "image_tokens": images},
        })
    }

    /// The generated images, in base64.
    pub(super) fn images(&self) -> Vec<String> {
        let lies = self.prompt.contains(LYING);
        let made = |n| {
            if lies {
                STANDARD.encode("<svg onload=\"alert(1)\"/>")
            } else {
                STANDARD.encode(small_png(&format!("{} {n}", self.prompt)))
            }
        };
        (1..=self.count).map(made).collect()
    }
}

/// Parses a request for new images.
pub(super) fn read_generation(body: &Value) -> Result<ImageCall, ImageRefusal> {
    let known = |name: &str| GENERATION.contains(&name);
    let fields = body.as_object().into_iter().flatten();
    if let Some((name, _)) = fields.into_iter().find(|(name, _)| !known(name)) {
        return Err(unknown(name));
    }
    read_call(&|name| body[name].clone(), 0)
}

/// Parses a form with images to change.
pub(super) fn read_edit(form: &[FormField]) -> Result<ImageCall, ImageRefusal> {
    let files: Vec<&FormField> = form.iter().filter(|field| field.kind.is_some()).collect();
    for field in form.iter().filter(|field| field.kind.is_none()) {
        if !EDIT.contains(&field.name.as_str()) {
            return Err(unknown(&field.name));
        }
    }
    let sources = files.iter().filter(|file| matches!(file.name.as_str(), "image" | "image[]"));
    let sources: Vec<_> = sources.collect();
    if sources.is_empty() {
        let message = "Missing required parameter: 'image'.".to_owned();
        return Err(ImageRefusal::invalid("missing_required_parameter", "image", message));
    }
    if sources.len() > 1 && sources.iter().any(|file| file.name == "image") {
        let message = "Duplicate parameter: 'image'. You provided multiple values for this parameter, whereas only one is \
                       allowed. If you are trying to provide a list of values, use the array syntax instead e.g. 'image[]=<value>'.";
        return Err(ImageRefusal::invalid("duplicate_parameter", "image", message.to_owned()));
    }
    for file in &files {
        let is_png = file.bytes.starts_with(b"\x89PNG\r\n\x1a\n");
        let is_image =
            is_png || file.bytes.starts_with(b"\xff\xd8\xff") || file.bytes.starts_with(b"RIFF");
        if !is_image || (file.name == "mask" && !is_png) {
            let message = format!(
                "Invalid image file or mode for {}, please check your image file.",
                file.name
            );
            return Err(ImageRefusal::invalid("invalid_image_file", &file.name, message));
        }
    }
    let mask = files.iter().find(|file| file.name == "mask");
    if let Some(mask) = mask
        && png_size(&mask.bytes) != png_size(&sources[0].bytes)
    {
        let message = "Invalid mask image format - mask size does not match image size".to_owned();
        return Err(ImageRefusal::invalid("invalid_mask", "mask", message));
    }
    if mask.is_some_and(|mask| !matches!(mask.bytes.get(25), Some(4 | 6))) {
        let message = "Invalid mask image format - mask image missing alpha channel".to_owned();
        return Err(ImageRefusal::invalid("invalid_mask", "mask", message));
    }
    let text = |name: &str| {
        let field = form.iter().find(|field| field.name == name && field.kind.is_none());
        let text = field.map(|field| String::from_utf8_lossy(&field.bytes).into_owned());
        match (name, text) {
            (_, None) => Value::Null,
            ("n", Some(text)) => text.parse::<u64>().map_or(json!(text), |n| json!(n)),
            (_, Some(text)) => json!(text),
        }
    };
    read_call(&text, u64::try_from(files.len()).unwrap_or(u64::MAX))
}

fn unknown(name: &str) -> ImageRefusal {
    ImageRefusal::invalid("unknown_parameter", name, format!("Unknown parameter: '{name}'."))
}

fn read_call(field: &dyn Fn(&str) -> Value, sent: u64) -> Result<ImageCall, ImageRefusal> {
    let prompt = field("prompt").as_str().unwrap_or_default().to_owned();
    if prompt.is_empty() || prompt.chars().count() > LONGEST {
        let message = format!("Invalid 'prompt': expected 1 to {LONGEST} characters.");
        return Err(ImageRefusal::invalid("invalid_value", "prompt", message));
    }
    let count = match field("n") {
        Value::Null => 1,
        n => n.as_u64().filter(|n| (1..=10).contains(n)).ok_or_else(|| {
            let message = "Invalid 'n': expected an integer from 1 to 10.".to_owned();
            ImageRefusal::invalid("invalid_value", "n", message)
        })?,
    };
    let choice = |name: &str, known: &[&str]| match field(name) {
        Value::Null => Ok("auto".to_owned()),
        Value::String(word) if known.contains(&word.as_str()) => Ok(word),
        other => {
            let message =
                format!("Invalid value: '{other}'. Supported values are: {}.", known.join(", "));
            Err(ImageRefusal::invalid("invalid_value", name, message))
        }
    };
    let (size, quality) = (choice("size", &SIZES)?, choice("quality", &QUALITIES)?);
    let background = choice("background", &BACKGROUNDS)?;
    let format = match field("output_format") {
        Value::Null => "png".to_owned(),
        _ => choice("output_format", &FORMATS)?,
    };
    if background == "transparent" && format == "jpeg" {
        let message = "Transparent background is not supported for JPEG output format.".to_owned();
        return Err(ImageRefusal::invalid("invalid_value", "background", message));
    }
    if prompt.contains(BLOCKED) {
        let message = "Your request was rejected by the safety system. If you believe this is an error, contact us at \
                       help.openai.com and include the request ID req_1. safety_violations=[violence].";
        return Err(ImageRefusal {
            kind: "image_generation_user_error",
            code: "moderation_blocked",
            message: message.to_owned(),
            param: None,
        });
    }
    Ok(ImageCall { prompt, count, size, quality, sent })
}

/// A chat can't be answered with an image, in the provider's words.
#[derive(Debug, thiserror::Error)]
pub(super) enum DrawingChatError {
    #[error("image_config.{0}: Invalid option")]
    Option(String),
    #[error("image_url.url: Invalid URL format")]
    Url,
    #[error("messages.0.content: Invalid input")]
    Content,
}

/// Parses a chat that is to be answered with an image. Nothing if it is a usual one.
pub(super) fn read_chat(body: &Value) -> Option<Result<ImageCall, DrawingChatError>> {
    let kinds = body["modalities"].as_array()?;
    kinds.iter().any(|kind| kind == "image").then(|| read_drawing_chat(body))
}

fn read_drawing_chat(body: &Value) -> Result<ImageCall, DrawingChatError> {
    let config = body["image_config"].as_object().into_iter().flatten();
    for (name, value) in config {
        match name.as_str() {
            "aspect_ratio" if value.as_str().is_some_and(|ratio| RATIOS.contains(&ratio)) => {}
            "image_size" if matches!(value.as_str(), Some("1K" | "2K" | "4K")) => {}
            "quality" if value.as_str().is_some_and(|one| QUALITIES.contains(&one)) => {}
            "background" if value.as_str().is_some_and(|one| BACKGROUNDS.contains(&one)) => {}
            "output_format" if value.as_str().is_some_and(|one| FORMATS.contains(&one)) => {}
            _ => return Err(DrawingChatError::Option(name.clone())),
        }
    }
    let content = &body["messages"][0]["content"];
    let parts = content.as_array().into_iter().flatten();
    let (mut prompt, mut sent) = (content.as_str().unwrap_or_default().to_owned(), 0);
    for part in parts {
        match part["type"].as_str() {
            Some("text") => prompt.push_str(part["text"].as_str().unwrap_or_default()),
            Some("image_url") => {
                let url = part["image_url"]["url"].as_str().unwrap_or_default();
                if !url.starts_with("data:image/") {
                    return Err(DrawingChatError::Url);
                }
                sent += 1;
            }
            _ => return Err(DrawingChatError::Content),
        }
    }
    Ok(ImageCall { prompt, count: 1, size: "auto".to_owned(), quality: "auto".to_owned(), sent })
}

/// One field of a multipart form.
#[derive(Debug)]
pub(super) struct FormField {
    pub name: String,
    /// Media type of a file, if the field is one.
    pub kind: Option<String>,
    pub bytes: Vec<u8>,
}

/// Parses the fields of a multipart form; nothing if the body is none.
pub(super) fn read_form(content_type: &str, body: &[u8]) -> Option<Vec<FormField>> {
    let (kind, boundary) = content_type.split_once(';')?;
    let boundary = boundary.trim().strip_prefix("boundary=")?.trim_matches('"');
    if kind.trim() != "multipart/form-data" {
        return None;
    }
    let line = format!("--{boundary}");
    let mut fields = Vec::new();
    let mut rest = after(body, line.as_bytes())?;
    while !rest.starts_with(b"--") {
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = find(rest, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&rest[..head_end]).into_owned();
        rest = &rest[head_end + 4..];
        let end = find(rest, format!("\r\n{line}").as_bytes())?;
        let bytes = rest[..end].to_vec();
        rest = &rest[end + 2 + line.len()..];
        let name = head.split("; name=\"").nth(1)?.split('"').next()?.to_owned();
        let types = head.lines().filter_map(|line| line.split_once(':'));
        let mut types = types.filter(|(field, _)| field.eq_ignore_ascii_case("content-type"));
        let kind = types.next().map(|(_, kind)| kind.trim().to_owned());
        fields.push(FormField { name, kind, bytes });
    }
    Some(fields)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

fn after<'b>(bytes: &'b [u8], wanted: &[u8]) -> Option<&'b [u8]> {
    find(bytes, wanted).map(|at| &bytes[at + wanted.len()..])
}

/// Reads the width and height of a PNG, as bytes.
fn png_size(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(16..24)
}

/// Builds a valid PNG that has `text` in a comment.
#[must_use]
pub fn small_png(text: &str) -> Vec<u8> {
    let mut png = STANDARD.decode(PIXEL).unwrap_or_default();
    let end = png.split_off(png.len().saturating_sub(12));
    let chunk = [b"tEXtComment\0", text.as_bytes()].concat();
    let length = u32::try_from(chunk.len() - 4).unwrap_or_default();
    png.extend(length.to_be_bytes());
    png.extend(&chunk);
    png.extend(checksum(&chunk).to_be_bytes());
    png.extend(end);
    png
}

/// CRC-32 checksum as PNG defines it.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let shifted = |crc: u32, _| if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 };
        (0..8).fold(crc ^ u32::from(*byte), shifted)
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &Value) -> &'static str {
        read_generation(body).unwrap_err().code
    }

    #[test]
    fn what_the_service_refuses_is_refused() {
        let good = json!({"model": "m", "prompt": "a fox", "n": 2, "size": "1536x1024", "quality": "high"});
        let call = read_generation(&good).unwrap();
        assert_eq!((call.count, call.tokens(), call.thousandths()), (2, 12_480, 334));
        for (field, value, expected) in [
            ("response_format", json!("b64_json"), "unknown_parameter"),
            ("size", json!("512x512"), "invalid_value"),
            ("quality", json!("hd"), "invalid_value"),
            ("n", json!(11), "invalid_value"),
            ("prompt", json!("something forbidden"), "moderation_blocked"),
        ] {
            let mut body = good.clone();
            body[field] = value;
            assert_eq!(code(&body), expected, "{field}");
        }
        let mut clear = good;
        (clear["background"], clear["output_format"]) = (json!("transparent"), json!("jpeg"));
        assert_eq!(code(&clear), "invalid_value");
    }

    #[test]
    fn a_form_is_read_with_its_files() {
        let png = small_png("x");
        let part = |name: &str, file: &str, bytes: &[u8]| {
            let head =
                format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
            [head.as_bytes(), bytes, b"\r\n"].concat()
        };
        let file = "; filename=\"a.png\"\r\ncontent-type: image/png";
        let form = |image: &str, bytes: &[u8]| {
            let parts = [
                part("model", "", b"m"),
                part("prompt", "", b"p"),
                part(image, file, bytes),
                part(image, file, &png),
            ];
            let body = [parts.concat(), b"--b--\r\n".to_vec()].concat();
            read_form("multipart/form-data; boundary=b", &body).unwrap()
        };
        let call = read_edit(&form("image[]", &png)).unwrap();
        assert_eq!((call.sent, call.count), (2, 1));
        assert_eq!(read_edit(&form("image", &png)).unwrap_err().code, "duplicate_parameter");
        assert_eq!(read_edit(&form("image[]", b"<svg/>")).unwrap_err().code, "invalid_image_file");
        assert_eq!(
            read_edit(&form("picture", &png)).unwrap_err().code,
            "missing_required_parameter"
        );
        assert!(read_form("application/json", b"{}").is_none());
    }

    #[test]
    fn images_differ_and_are_whole() {
        let call = read_generation(&json!({"prompt": "a fox", "n": 2})).unwrap();
        let images = call.images();
        assert_ne!(images[0], images[1]);
        // The checksum of "IEND" is the same in every PNG.
        assert_eq!(checksum(b"IEND"), 0xAE42_6082);
    }
}
