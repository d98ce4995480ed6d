//! OpenRouter's images API: requests are checked as strictly as there.

use serde_json::Value;

use super::images::{BACKGROUNDS, FORMATS, ImageCall, QUALITIES, RATIOS};

/// Fields of OpenRouter's `POST /images`.
const ROUTED: [&str; 14] = [
    "model",
    "prompt",
    "n",
    "aspect_ratio",
    "resolution",
    "size",
    "quality",
    "background",
    "output_format",
    "output_compression",
    "input_references",
    "provider",
    "seed",
    "stream",
];

/// A request of OpenRouter's images API is refused, in its words.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoutedCallError {
    #[error("Unrecognized key: \"{0}\"")]
    Unknown(String),
    #[error("prompt: Invalid input: expected string")]
    Prompt,
    #[error("{0}: Invalid option")]
    Option(&'static str),
    #[error("n: this model generates one image per request")]
    Count,
    #[error("input_references: Invalid input")]
    References,
}

/// Parses a request of OpenRouter's images API, for a provider that makes one image at a time.
pub(super) fn read_routed(body: &Value) -> Result<ImageCall, RoutedCallError> {
    let fields = body.as_object().into_iter().flatten();
    if let Some((name, _)) = fields.into_iter().find(|(name, _)| !ROUTED.contains(&name.as_str())) {
        return Err(RoutedCallError::Unknown(name.clone()));
    }
    let prompt = body["prompt"].as_str().filter(|prompt| !prompt.is_empty());
    let prompt = prompt.ok_or(RoutedCallError::Prompt)?.to_owned();
    for (name, known) in [
        ("aspect_ratio", &RATIOS[..]),
        ("quality", &QUALITIES[..]),
        ("background", &BACKGROUNDS[..]),
        ("output_format", &FORMATS[..]),
    ] {
        let is_known = |value: &str| known.contains(&value);
        if !body[name].is_null() && !body[name].as_str().is_some_and(is_known) {
            return Err(RoutedCallError::Option(name));
        }
    }
    if body["n"].as_u64().is_some_and(|n| n > 1) {
        return Err(RoutedCallError::Count);
    }
    let references = body["input_references"].as_array().map(Vec::as_slice).unwrap_or_default();
    for part in references {
        let url = part["image_url"]["url"].as_str().unwrap_or_default();
        if part["type"] != "image_url" || !url.starts_with("data:image/") {
            return Err(RoutedCallError::References);
        }
    }
    let quality = body["quality"].as_str().unwrap_or("auto").to_owned();
    let sent = u64::try_from(references.len()).unwrap_or(u64::MAX);
    Ok(ImageCall { prompt, count: 1, size: "auto".to_owned(), quality, sent })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn openrouters_images_api_refuses_what_it_does_not_declare() {
        let good = json!({"model": "m", "prompt": "a fox", "aspect_ratio": "3:2", "quality": "low",
            "input_references": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]});
        assert_eq!(read_routed(&good).unwrap().sent, 1);
        for (field, value) in [
            ("session_id", json!("s")),
            ("messages", json!([])),
            ("aspect_ratio", json!("7:5")),
            ("n", json!(2)),
            ("prompt", json!("")),
            ("input_references", json!(["https://a.example/x.png"])),
        ] {
            let mut body = good.clone();
            body[field] = value;
            assert!(read_routed(&body).is_err(), "{field}");
        }
    }
}
