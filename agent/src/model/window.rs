//! Size of a model's context window, as its server says when it was shown too much.

use std::sync::LazyLock;

use regex::Regex;

/// Fewer tokens are no window of any model.
const LEAST: u32 = 256;
/// The shortest window that a server is advised to give.
const USABLE: u32 = 32_768;

/// Servers' own words, each with the number behind or before it.
static FORMS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"n_ctx\D{0,6}([\d,_]+)",
        r"context (?:size|length|window)(?: limit)?(?: is| of|:|=|\s|\()*([\d,_]+)",
        r"max_model_len\D{0,6}([\d,_]+)",
        r"(?:tokens|length) allowed(?: is|:|\s|\()*([\d,_]+)",
        r"([\d,_]+) maximum",
        r"(?:token|context|input) limit(?: is| of|:|=|\s|\()*([\d,_]+)",
        r"maximum (?:input |prompt )?(?:length|tokens|number of tokens)(?: is| of|:|=|\s|\()*([\d,_]+)",
    ]
    .into_iter()
    .filter_map(|form| Regex::new(&format!("(?i){form}")).ok())
    .collect()
});

/// The window that a refusal names.
pub fn find_window(said: &str) -> Option<u32> {
    let number = |text: &str| text.replace([',', '_'], "").parse().ok();
    let found = FORMS.iter().find_map(|form| form.captures(said)?.get(1));
    found.and_then(|found| number(found.as_str())).filter(|tokens| *tokens >= LEAST)
}

/// Advice for people about a window of so many tokens. `shown`: what a request was taken to have.
pub fn advise_window(said: &str, window: u32, shown: u32) -> String {
    let local = said.contains("n_ctx") || said.contains("available context size");
    if local {
        let wanted = shown.saturating_mul(2).max(USABLE).checked_next_power_of_two();
        return format!(
            "Its server gives it a window of {window} tokens: start it with a larger one (llama.cpp: `-c {}`), or \
             give me another model",
            wanted.unwrap_or(USABLE)
        );
    }
    format!("Its window is taken to be {window} tokens: give me a model with a larger one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_their_window_in_many_words() {
        for (said, window) in [
            (
                "request (4614 tokens) exceeds the available context size (2048 tokens), try increasing it",
                Some(2048),
            ),
            (
                r#"{"code":400,"message":"too long","n_prompt_tokens":4614,"n_ctx":2048}"#,
                Some(2048),
            ),
            (
                "This model's maximum context length is 4097 tokens. However, you requested 5000 tokens",
                Some(4097),
            ),
            (
                "This endpoint's maximum context length is 163840 tokens. However, you requested about 200000",
                Some(163_840),
            ),
            ("Requested tokens (3000) exceed context window of 2048", Some(2048)),
            ("prompt is too long: 215000 tokens > 200000 maximum", Some(200_000)),
            (
                "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            ("input length 9000 exceeds max_model_len=8192", Some(8192)),
            ("the context length limit is 131,072 tokens", Some(131_072)),
            ("maximum context length", None),
            ("Input is too long for requested model.", None),
            ("rate limit: 60 requests", None),
        ] {
            assert_eq!(find_window(said), window, "{said}");
        }
    }

    #[test]
    fn a_server_of_ones_own_is_started_with_a_larger_window() {
        let said = "request (46140 tokens) exceeds the available context size (2048 tokens)";
        let advice = advise_window(said, 2048, 46_140);
        assert!(advice.contains("2048 tokens") && advice.contains("`-c 131072`"), "{advice}");
        let advice = advise_window("maximum context length", 8_192, 9_000);
        assert_eq!(
            advice,
            "Its window is taken to be 8192 tokens: give me a model with a larger one"
        );
    }
}
