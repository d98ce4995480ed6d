//! Arguments of calls that servers of stateless versions want in headers, too: those whose schema says
//! `x-mcp-header`.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// Field of a schema that names the header.
const FIELD: &str = "x-mcp-header";
/// Tools with headers, headers of one, and how deep in its schema they are looked for.
const TOOLS: usize = 5000;
const HEADERS: usize = 16;
const DEPTH: usize = 8;
/// Bytes of an argument's place, and of all that is kept: servers choose these words, and a new list adds to old ones.
const PLACE: usize = 1000;
const TOGETHER: usize = 1 << 20;
/// Bytes of a kept word beside its letters, about.
const WORD: usize = 32;

/// An argument's place among the arguments, and its header.
type WantedHeader = (Vec<String>, HeaderName);

/// The headers that calls of tools have, by the tool's name.
#[derive(Default)]
pub(super) struct ParamHeaders {
    known: HashMap<String, Vec<WantedHeader>>,
    /// Bytes of all of them.
    bytes: usize,
}

impl ParamHeaders {
    /// Learns from a page of a list of tools.
    pub(super) fn learn(&mut self, result: &Value) {
        let tools = result.get("tools").and_then(Value::as_array);
        for tool in tools.into_iter().flatten() {
            let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
            let mut wanted = Vec::new();
            collect_headers(tool.pointer("/inputSchema/properties"), &mut Vec::new(), &mut wanted);
            if let Some(old) = self.known.remove(name) {
                self.bytes -= weigh_headers(name, &old);
            }
            let bytes = weigh_headers(name, &wanted);
            let has_room = self.known.len() < TOOLS && self.bytes + bytes <= TOGETHER;
            if has_room && !wanted.is_empty() {
                self.bytes += bytes;
                self.known.insert(name.to_owned(), wanted);
            }
        }
    }

    /// The headers of a call with these arguments.
    pub(super) fn of_call(&self, tool: &str, arguments: &Value) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (path, name) in self.known.get(tool).into_iter().flatten() {
            let value = path.iter().try_fold(arguments, |value, field| value.get(field));
            if let Some(value) = value.and_then(write_value) {
                headers.insert(name.clone(), value);
            }
        }
        headers
    }
}

fn weigh_headers(tool: &str, headers: &[WantedHeader]) -> usize {
    let weigh = |(path, name): &WantedHeader| {
        name.as_str().len() + path.iter().map(|field| field.len() + WORD).sum::<usize>() + WORD
    };
    tool.len() + WORD + headers.iter().map(weigh).sum::<usize>()
}

fn collect_headers(
    properties: Option<&Value>,
    path: &mut Vec<String>,
    wanted: &mut Vec<WantedHeader>,
) {
    let Some(properties) = properties.and_then(Value::as_object).filter(|_| path.len() < DEPTH)
    else {
        return;
    };
    for (name, schema) in properties {
        path.push(name.clone());
        let header = schema.get(FIELD).and_then(Value::as_str);
        let header = header.and_then(|name| HeaderName::try_from(format!("mcp-param-{name}")).ok());
        let is_short = path.iter().map(String::len).sum::<usize>() <= PLACE;
        if let Some(header) = header.filter(|_| wanted.len() < HEADERS && is_short) {
            wanted.push((path.clone(), header));
        }
        collect_headers(schema.get("properties"), path, wanted);
        path.pop();
    }
}

/// A plain value in the protocol's form: base64 where a header can't hold it as it is.
fn write_value(value: &Value) -> Option<HeaderValue> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return None,
    };
    let is_plain = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    let text = if is_plain { text } else { format!("=?base64?{}?=", STANDARD.encode(&text)) };
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marked_arguments_become_headers_in_a_form_that_fits() {
        let mut params = ParamHeaders::default();
        let schema = json!({"properties": {
            "owner": {"x-mcp-header": "Owner"},
            "at": {"properties": {"page": {"x-mcp-header": "page"}, "deep": {"x-mcp-header": "deep"}}},
            "bad": {"x-mcp-header": "two words"}, "list": {"x-mcp-header": "list"},
        }});
        params.learn(&json!({"tools": [{"name": "find", "inputSchema": schema}, {"name": 7}, {}]}));
        let of = |arguments: Value| {
            let headers = params.of_call("find", &arguments);
            let text = |name: &str| {
                headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
            };
            (text("mcp-param-owner"), text("mcp-param-page"), headers.len())
        };
        let some = |text: &str| Some(text.to_owned());
        let usual =
            json!({"owner": "acme", "at": {"page": 2, "deep": null}, "list": [], "bad": "x"});
        assert_eq!(of(usual), (some("acme"), some("2"), 2));
        assert_eq!(of(json!({"owner": "é\r\n"})), (some("=?base64?w6kNCg==?="), None, 1));
        assert_eq!(of(json!({"owner": " a"})).0, some("=?base64?IGE=?="));
        assert_eq!(of(json!(null)), (None, None, 0));
        assert!(params.of_call("other", &json!({"owner": "acme"})).is_empty());
        // A list that is read anew has the last word.
        params.learn(&json!({"tools": [{"name": "find"}]}));
        assert!(params.of_call("find", &json!({"owner": "acme"})).is_empty());
    }

    #[test]
    fn lists_with_ever_new_and_long_words_take_no_more_and_more_memory() {
        let mut params = ParamHeaders::default();
        let tool = |name: &str, field: &str| {
            let schema = json!({"properties": {field: {"x-mcp-header": "a"}}});
            json!({"tools": [{"name": name, "inputSchema": schema}]})
        };
        let has = |params: &ParamHeaders, name: &str, field: &str| {
            !params.of_call(name, &json!({field: "x"})).is_empty()
        };
        let long = |number: usize| format!("{number}{}", "n".repeat(TOGETHER / 8));
        for number in 0..20 {
            params.learn(&tool(&long(number), "b"));
        }
        assert!(has(&params, &long(0), "b") && !has(&params, &long(19), "b"));
        let kept = (0..20).filter(|number| has(&params, &long(*number), "b")).count();
        assert!(kept < 8, "{kept}");
        // A list that is read again counts once.
        for _ in 0..20 {
            params.learn(&tool("find", "b"));
        }
        assert!(has(&params, "find", "b"));
        let field = "f".repeat(PLACE + 1);
        params.learn(&tool("find", &field));
        assert!(!has(&params, "find", &field));
    }
}
