//! Providers of models that the environment names by their own customary variables: a key of OpenAI, Anthropic or
//! Google, or the address of a server of one's own.

use std::net::Ipv6Addr;

/// The one whose key is looked for first.
const OPENROUTER: (&str, &str) = ("OPENROUTER_API_KEY", "https://openrouter.ai/api/v1");
/// Variable of the demo that names any server, and the option that goes before it.
const OWN: (&str, &str) = ("CODEBUTLER_MODEL_URL", "--model-url");
/// Providers by the variable that holds their key, the more general first.
const KEYED: [(&str, &str); 4] = [
    ("OPENAI_API_KEY", "https://api.openai.com/v1"),
    ("ANTHROPIC_API_KEY", "https://api.anthropic.com/v1"),
    ("GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai"),
    ("GOOGLE_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai"),
];
/// Variable that points OpenAI's clients to another server; vLLM and llama.cpp tell their users to set it.
const BASE: &str = "OPENAI_BASE_URL";
/// Key and address for Anthropic's own clients; the address without a version.
const ANTHROPIC: (&str, &str) = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL");
/// Ollama's address, and its port where none is given.
const OLLAMA: (&str, u16) = ("OLLAMA_HOST", 11_434);
/// Address and port of llama.cpp's server.
const LLAMA: (&str, &str) = ("LLAMA_ARG_HOST", "LLAMA_ARG_PORT");
/// Placeholder that is sent as a key to servers without keys.
const NO_KEY: &str = "none";

/// A provider that the environment names. It holds a key, so that it has no debug output.
pub struct NamedProvider {
    /// Base URL of the provider's API.
    pub url: String,
    /// The key, or a word where none is wanted.
    pub key: String,
    /// The variable that named it.
    pub variable: &'static str,
    /// True if it is told to be Anthropic's API, whatever its address.
    pub is_anthropic: bool,
}

/// The first one that the environment names by a customary variable.
pub fn find_provider(env: impl Fn(&str) -> Option<String>) -> Option<NamedProvider> {
    let set = |name: &str| set_value(&env, name);
    let found = |url: String, key: String, variable| {
        Some(NamedProvider { url, key, variable, is_anthropic: false })
    };
    if let Some(url) = set(BASE) {
        let key = set(KEYED[0].0).unwrap_or_else(|| NO_KEY.to_owned());
        return found(url, key, BASE);
    }
    for (variable, url) in KEYED {
        if let Some(key) = set(variable) {
            if let Some(base) = set(ANTHROPIC.1).filter(|_| variable == ANTHROPIC.0) {
                let url = with_version(&base);
                return Some(NamedProvider { url, key, variable, is_anthropic: true });
            }
            return found(url.to_owned(), key, variable);
        }
    }
    if let Some(host) = set(OLLAMA.0) {
        return found(local_url(&host, OLLAMA.1), NO_KEY.to_owned(), OLLAMA.0);
    }
    let port = set(LLAMA.1)?.parse().ok()?;
    let host = set(LLAMA.0).unwrap_or_default();
    found(local_url(&host, port), NO_KEY.to_owned(), LLAMA.1)
}

/// URL of the provider that the demo is going to ask, and the variable that names it: `option` is the value of the
/// demo's own option.
pub(crate) fn find_url(
    option: Option<String>,
    env: &impl Fn(&str) -> Option<String>,
) -> Option<(String, &'static str)> {
    let own = option.filter(|url| !url.trim().is_empty()).map(|url| (url, OWN.1));
    own.or_else(|| Some((set_value(env, OWN.0)?, OWN.0)))
        .or_else(|| set_value(env, OPENROUTER.0).map(|_| (OPENROUTER.1.to_owned(), OPENROUTER.0)))
        .or_else(|| find_provider(env).map(|found| (found.url, found.variable)))
}

/// Value of a variable that is not empty.
fn set_value(env: &impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    env(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn with_version(base: &str) -> String {
    let base = base.trim_end_matches('/');
    if base.ends_with("/v1") { base.to_owned() } else { format!("{base}/v1") }
}

/// The address of a server as its own variable has it: a host, a host with a port, or a URL, which has the usual port of
/// its scheme. An address that it listens to on all networks is this machine's.
fn local_url(given: &str, port: u16) -> String {
    let given = given.trim_matches(['"', '\'', ' ']);
    let (scheme, rest, port) = match given.split_once("://") {
        Some(("https", rest)) => ("https", rest, 443),
        Some((scheme, rest)) => (scheme, rest, 80),
        None => ("http", given, port),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = path.trim_end_matches('/');
    let is_bare = authority.parse::<Ipv6Addr>().is_ok();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, own)) if !is_bare && !authority.ends_with(']') => {
            (host, own.parse().unwrap_or(port))
        }
        _ => (authority, port),
    };
    let host = match host {
        "" | "0.0.0.0" | "[::]" | "::" => "127.0.0.1".to_owned(),
        host if is_bare => format!("[{host}]"),
        host => host.to_owned(),
    };
    format!("{scheme}://{host}:{port}{path}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demos_own_names_go_before_the_customary_ones() {
        let of = |option: Option<&str>, env: &[(&str, &str)]| {
            let get = |name: &str| {
                env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            find_url(option.map(str::to_owned), &get)
        };
        let found = |url: &str, variable| Some((url.to_owned(), variable));
        let all = [
            ("CODEBUTLER_MODEL_URL", "http://own/v1"),
            ("OPENROUTER_API_KEY", "sk-or-1"),
            ("OLLAMA_HOST", "gpu"),
        ];
        assert_eq!(of(Some("http://flag/v1"), &all), found("http://flag/v1", "--model-url"));
        assert_eq!(of(None, &all), found("http://own/v1", "CODEBUTLER_MODEL_URL"));
        assert_eq!(
            of(None, &all[1..]),
            found("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")
        );
        assert_eq!(of(None, &all[2..]), found("http://gpu:11434/v1", "OLLAMA_HOST"));
        assert_eq!(of(None, &[("OPENROUTER_API_KEY", " ")]), None);
    }

    #[test]
    fn an_address_of_ollama_is_what_ollama_itself_makes_of_it() {
        for (given, url) in [
            ("https://gpu/", "https://gpu:443/v1"),
            ("https://gpu.acme.dev/ollama/", "https://gpu.acme.dev:443/ollama/v1"),
            ("http://gpu", "http://gpu:80/v1"),
            ("http://gpu:11434/", "http://gpu:11434/v1"),
            ("\"gpu:8000\"", "http://gpu:8000/v1"),
            (":8000", "http://127.0.0.1:8000/v1"),
            ("::1", "http://[::1]:11434/v1"),
            ("[::1]", "http://[::1]:11434/v1"),
            ("[::1]:8000", "http://[::1]:8000/v1"),
            ("[::]:8000", "http://127.0.0.1:8000/v1"),
        ] {
            assert_eq!(local_url(given, OLLAMA.1), url, "{given}");
        }
    }
}
