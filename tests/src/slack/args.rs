//! Arguments of a call, whichever way they came: query, form, multipart form or JSON.

use serde_json::{Map, Value};

use super::failure::MethodFailure;

/// Arguments by name. Those of a form are all strings.
#[derive(Debug, Default)]
pub(super) struct MethodArgs(pub Map<String, Value>);

impl MethodArgs {
    /// Reads query and body as Slack does: some methods ignore JSON bodies (`accepts_json`).
    pub(super) fn read(
        query: &str,
        content_type: &str,
        body: &[u8],
        accepts_json: bool,
    ) -> Result<Self, MethodFailure> {
        let mut args = Self::default();
        args.add_form(query.as_bytes());
        let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        match kind.trim() {
            _ if body.is_empty() => {}
            "application/json" if accepts_json => match serde_json::from_slice(body) {
                Ok(Value::Object(fields)) => args.0.extend(fields),
                Ok(_) => return Err(MethodFailure::new("json_not_object")),
                Err(_) => return Err(MethodFailure::new("invalid_json")),
            },
            "application/json" => {}
            "application/x-www-form-urlencoded" => args.add_form(body),
            "multipart/form-data" => {
                let boundary = parameters.trim().strip_prefix("boundary=").unwrap_or_default();
                for part in multipart_parts(body, boundary.trim_matches('"')) {
                    let text = String::from_utf8_lossy(part.content).into_owned();
                    args.0.insert(part.name, Value::String(text));
                }
            }
            "" => return Err(MethodFailure::new("missing_post_type")),
            _ => return Err(MethodFailure::new("invalid_post_type")),
        }
        args.0.retain(|_, value| !value.is_null());
        Ok(args)
    }

    fn add_form(&mut self, form: &[u8]) {
        for (name, value) in url::form_urlencoded::parse(form) {
            self.0.insert(name.into_owned(), Value::String(value.into_owned()));
        }
    }

    /// A string, if given and not empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        match self.0.get(name)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    /// A string that the method can't do without.
    pub(super) fn need(&self, name: &str) -> Result<String, MethodFailure> {
        self.text(name).ok_or_else(|| MethodFailure::missing_argument(name))
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text == "true" || text == "1")
    }

    /// A number between 1 and `most`.
    pub(super) fn limit(&self, usual: usize, most: usize) -> Result<usize, MethodFailure> {
        let Some(text) = self.text("limit") else { return Ok(usual) };
        match text.parse::<usize>() {
            Ok(limit) if limit > 0 => Ok(limit.min(most)),
            _ => Err(MethodFailure::new("invalid_limit")),
        }
    }

    /// A JSON value, given as such or as text; `bad` is the code for text that is no JSON.
    pub(super) fn json(&self, name: &str, bad: &str) -> Result<Option<Value>, MethodFailure> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => {
                serde_json::from_str(text).map(Some).map_err(|_| MethodFailure::new(bad))
            }
            Some(value) => Ok(Some(value.clone())),
        }
    }
}

/// One part of a multipart form.
pub(super) struct UploadPart<'a> {
    pub name: String,
    pub content: &'a [u8],
}

/// The parts of a multipart body. Headers other than the name are of no interest here.
pub(super) fn multipart_parts<'a>(body: &'a [u8], boundary: &str) -> Vec<UploadPart<'a>> {
    let delimiter = format!("--{boundary}");
    let mut found = Vec::new();
    let mut rest = body;
    while let Some(at) = find_bytes(rest, delimiter.as_bytes()) {
        let after = &rest[at + delimiter.len()..];
        let end = find_bytes(after, delimiter.as_bytes()).unwrap_or(after.len());
        let part = after[..end].strip_prefix(b"\r\n").unwrap_or(&after[..end]);
        if let Some(gap) = find_bytes(part, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&part[..gap]);
            let name = head.split("name=\"").nth(1).and_then(|tail| tail.split('"').next());
            let content = &part[gap + 4..];
            found.push(UploadPart {
                name: name.unwrap_or_default().to_owned(),
                content: content.strip_suffix(b"\r\n").unwrap_or(content),
            });
        }
        rest = after;
    }
    found
}

fn find_bytes(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_json_and_query_mean_the_same() {
        let form = b"channel=C1&text=a%20b&as_user=1&blocks=%5B%5D".as_slice();
        let form = MethodArgs::read("", "application/x-www-form-urlencoded", form, true).unwrap();
        let body = br#"{"channel":"C1","text":"a b","as_user":true,"blocks":[],"gone":null}"#;
        let json = MethodArgs::read("", "application/json; charset=utf-8", body, true).unwrap();
        for args in [&form, &json] {
            assert_eq!(args.text("channel").as_deref(), Some("C1"));
            assert_eq!(args.text("text").as_deref(), Some("a b"));
            assert!(args.flag("as_user"));
            assert_eq!(args.json("blocks", "x").unwrap(), Some(serde_json::json!([])));
        }
        let ignored = MethodArgs::read("", "application/json", body, false).unwrap();
        assert!(ignored.text("channel").is_none());
    }

    #[test]
    fn multipart_keeps_every_byte() {
        let body =
            b"--B\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n\x00\r\n\xff\r\n--B--";
        let parts = multipart_parts(body, "B");
        assert_eq!(parts[0].name, "file");
        assert_eq!(parts[0].content, b"\x00\r\n\xff");
    }
}
