//! Finds tool calls that a model wrote as text, in the forms in which the families of open models are
//! trained to write them, and which a provider should have read as calls. Who only talks about such
//! tokens, in code or in a sentence, is not meant: what follows a token has to be a call.

use serde_json::Value;

/// Returns the token that gives a leaked call away, if the text holds one.
pub(super) fn leaked_call(text: &str, tools: &[String]) -> Option<&'static str> {
    if is_bare_call(text, tools) {
        return Some("{\"name\": …}");
    }
    let text = without_code(text);
    FORMS.iter().find(|form| form.is_in(&text)).map(|form| form.token)
}

/// A token, and what follows it where it is a call.
struct Form {
    token: &'static str,
    follows: fn(&str) -> bool,
}

impl Form {
    fn is_in(&self, text: &str) -> bool {
        let mut places = text.match_indices(self.token);
        places.any(|(at, _)| (self.follows)(text[at + self.token.len()..].trim_start()))
    }
}

const FORMS: [Form; 17] = [
    // Kimi.
    Form {
        token: "<|tool_calls_section_begin|>",
        follows: |t| t.is_empty() || t.starts_with("<|tool_call_begin|>"),
    },
    Form {
        token: "<|tool_call_begin|>",
        follows: |t| has_token(t, "<|tool_call_argument_begin|>") || names_tool(t, ":"),
    },
    // DeepSeek, in its own letters and in ours.
    Form {
        token: "<｜tool▁calls▁begin｜>",
        follows: |t| t.is_empty() || t.starts_with("<｜tool▁call▁begin｜>"),
    },
    Form {
        token: "<｜tool▁call▁begin｜>",
        follows: |t| has_token(t, "<｜tool▁sep｜>") || names_tool(t, "\n"),
    },
    Form {
        token: "<|tool▁calls▁begin|>",
        follows: |t| t.is_empty() || t.starts_with("<|tool▁call▁begin|>"),
    },
    Form {
        token: "<｜DSML｜function_calls>",
        follows: |t| t.is_empty() || t.starts_with("<｜DSML｜invoke"),
    },
    Form { token: "<｜DSML｜invoke name=", follows: |t| t.starts_with('"') },
    // Llama.
    Form {
        token: "<|python_tag|>",
        follows: |t| t.starts_with('{') || names_tool(t, "(") || names_tool(t, ".call("),
    },
    // Qwen and Hermes; GLM.
    Form {
        token: "<tool_call>",
        follows: |t| t.starts_with('{') || t.starts_with("<function=") || has_token(t, "<arg_key>"),
    },
    Form { token: "<function_calls>", follows: |t| t.starts_with("<invoke") },
    Form {
        token: "<function=",
        follows: |t| {
            names_tool(t, ">")
                && (has_token(t, "<parameter=")
                    || has_token(t, "</function>")
                    || text_after(t, '>').starts_with('{'))
        },
    },
    Form {
        token: "<invoke name=",
        follows: |t| {
            t.starts_with(['"', '\'']) && (has_token(t, "<parameter") || has_token(t, "</invoke>"))
        },
    },
    Form {
        token: "<tool_use>",
        follows: |t| t.starts_with('{') || t.starts_with("<name>") || t.starts_with("<tool_name>"),
    },
    // Mistral.
    Form {
        token: "[TOOL_CALLS]",
        follows: |t| t.starts_with(['[', '{']) || names_tool(t, "{") || names_tool(t, "[ARGS]"),
    },
    // Of gpt-oss.
    Form { token: "<|channel|>", follows: |t| has_token(t, "to=functions.") },
    Form { token: "to=functions.", follows: |t| has_token(t, "<|message|>") },
    Form { token: "<|start|>assistant", follows: |t| has_token(t, "to=functions.") },
];

/// True if the token stands near the text's beginning.
fn has_token(text: &str, token: &str) -> bool {
    text.find(token).is_some_and(|at| at < 4_000)
}

fn text_after(text: &str, end: char) -> &str {
    text.split_once(end).map_or("", |(_, rest)| rest.trim_start())
}

/// True if the text begins with a name, and `end` follows it.
fn names_tool(text: &str, end: &str) -> bool {
    let named = text.trim_start_matches(|c: char| c.is_alphanumeric() || "_.-".contains(c));
    named.len() < text.len() && named.starts_with(end)
}

/// True if the whole text is one call, as JSON. Fenced or not: nobody means it for people.
fn is_bare_call(text: &str, tools: &[String]) -> bool {
    let text = text.trim().trim_start_matches("```json").trim_matches('`').trim();
    let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
    let first = value.get(0).unwrap_or(&value);
    let call = first.get("function").filter(|inner| inner.is_object()).unwrap_or(first);
    let known = call["name"].as_str().or_else(|| call["function"].as_str());
    known.is_some_and(|name| tools.iter().any(|tool| tool == name))
        && (call.get("arguments").is_some() || call.get("parameters").is_some())
}

/// The text without what stands between backticks.
fn without_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        out.push_str(&rest[..at]);
        let from = &rest[at..];
        let ticks = from.len() - from.trim_start_matches('`').len();
        let (fence, body) = from.split_at(ticks);
        match body.find(fence) {
            Some(end) => rest = body[end + ticks..].trim_start_matches('`'),
            // A fence that nobody closed goes on to the end; a lonely tick is a tick.
            None if ticks >= 3 => rest = "",
            None => rest = body,
        }
        out.push('\u{1}');
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaks(text: &str) -> bool {
        leaked_call(text, &["Read".to_owned(), "Bash".to_owned()]).is_some()
    }

    #[test]
    fn calls_of_every_family_are_found() {
        for text in [
            "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.Read:0<|tool_call_argument_begin|>{\"path\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
            "<|tool_call_begin|>functions.Read:0",
            "Let me see <|tool_calls_section_begin|>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>Read\n```json\n{\"path\": \"a\"}\n```<｜tool▁call▁end｜>",
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"Read\">",
            "<|python_tag|>{\"name\": \"Read\", \"parameters\": {\"path\": \"a\"}}",
            "<|python_tag|>Read.call(path=\"a\")",
            "<function=Read>{\"path\": \"a\"}</function>",
            "<tool_call>\n{\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
            "<tool_call>\n<function=Read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
            "<tool_call>Read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
            "I read it.\n<function_calls>\n<invoke name=\"Read\">\n<parameter name=\"path\">a</parameter>\n</invoke>",
            "<invoke name=\"Bash\"><parameter name=\"command\">ls</parameter></invoke>",
            "[TOOL_CALLS][{\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}]",
            "[TOOL_CALLS]Read{\"path\": \"a\"}",
            "[TOOL_CALLS] Read[ARGS]{\"path\": \"a\"}",
            "<|channel|>commentary to=functions.Read <|constrain|>json<|message|>{\"path\": \"a\"}",
            "{\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}",
            "```json\n{\"name\": \"Bash\", \"parameters\": {\"command\": \"ls\"}}\n```",
            "[{\"function\": {\"name\": \"Read\", \"arguments\": \"{}\"}}]",
        ] {
            assert!(leaks(text), "{text}");
        }
    }

    #[test]
    fn who_talks_about_them_makes_no_call() {
        for text in [
            "The parser looks for `<tool_call>` and `</tool_call>`.",
            "Kimi ends with `<|tool_calls_section_end|>`; see `<|tool_call_begin|>functions.Read:0`.",
            "```\n<tool_call>\n{\"name\": \"Read\"}\n</tool_call>\n```\nis what Qwen writes.",
            "```xml\n<invoke name=\"Read\"><parameter name=\"path\">a</parameter></invoke>",
            "A <tool_call> element is not closed in line 3.",
            "The token <|tool_calls_section_begin|> starts a section.",
            "[TOOL_CALLS] is Mistral's token.",
            "Use std::function<void()> and vector<function=x> here.",
            "{\"name\": \"shop\", \"version\": \"1.0\"}",
            "{\"name\": \"Deploy\", \"arguments\": {}}",
            "I called Read and it worked.",
            "",
        ] {
            assert!(!leaks(text), "{text}");
        }
    }
}
