//! Providers that the environment names by their own customary variables: a key of OpenAI, Anthropic or Google, or
//! the address of a server of one's own.

use codebutler_crds::model::ModelApi;

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

/// An API key, which its debug output hides.
#[derive(Clone, Default)]
pub struct SecretKey(pub Option<String>);

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "set" } else { "unset" })
    }
}

/// A provider that was found.
#[derive(Clone, Debug)]
pub struct FoundProvider {
    /// Base URL of the provider's API.
    pub url: String,
    /// The key, or a word where none is wanted.
    pub key: SecretKey,
    /// The variable that named it.
    pub variable: &'static str,
    /// The kind of its API, where the address does not tell.
    pub api: Option<ModelApi>,
}

/// The first one that the environment names.
pub(super) fn find_provider(env: impl Fn(&str) -> Option<String>) -> Option<FoundProvider> {
    let set = |name: &str| env(name).map(|text| text.trim().to_owned()).filter(|t| !t.is_empty());
    let found = |url: String, key: String, variable| {
        Some(FoundProvider { url, key: SecretKey(Some(key)), variable, api: None })
    };
    if let Some(url) = set(BASE) {
        let key = set(KEYED[0].0).unwrap_or_else(|| NO_KEY.to_owned());
        return found(url, key, BASE);
    }
    for (variable, url) in KEYED {
        if let Some(key) = set(variable) {
            if let Some(base) = set(ANTHROPIC.1).filter(|_| variable == ANTHROPIC.0) {
                let api = Some(ModelApi::Anthropic);
                return found(with_version(&base), key, variable)
                    .map(|found| FoundProvider { api, ..found });
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

fn with_version(base: &str) -> String {
    let base = base.trim_end_matches('/');
    if base.ends_with("/v1") { base.to_owned() } else { format!("{base}/v1") }
}

/// Variables that name proxies, as the gateway reads them.
const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
/// Addresses of this machine, which no proxy can reach.
const THIS_MACHINE: &str = "127.0.0.0/8,localhost,::1";

/// The way out of this network as the environment names it, for a gateway whose cluster, Slack and Git host run here.
pub(super) fn proxy_variables(env: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let set = |name: &str| env(name).filter(|text| !text.trim().is_empty());
    let mut named: Vec<(String, String)> =
        PROXIES.iter().filter_map(|name| Some(((*name).to_owned(), set(name)?))).collect();
    if named.is_empty() {
        return named;
    }
    let none = set("NO_PROXY").or_else(|| set("no_proxy"));
    let none = none.map_or_else(
        || THIS_MACHINE.to_owned(),
        |own| format!("{},{THIS_MACHINE}", own.trim().trim_end_matches(',')),
    );
    named.push(("NO_PROXY".to_owned(), none));
    named
}

/// The address of a server as its own variable has it: a host, a host with a port, or a URL. An address that it
/// listens to on all networks is this machine's.
fn local_url(given: &str, port: u16) -> String {
    let (scheme, rest) = given.split_once("://").unwrap_or(("http", given));
    let rest = rest.trim_end_matches('/');
    let (host, own_port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && port.parse::<u16>().is_ok() => {
            (host, port.to_owned())
        }
        _ => (rest, port.to_string()),
    };
    let host = if matches!(host, "" | "0.0.0.0" | "[::]" | "::") { "127.0.0.1" } else { host };
    format!("{scheme}://{host}:{own_port}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(env: &[(&str, &str)]) -> Option<(String, String, &'static str)> {
        let get = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        find_provider(get).map(|one| (one.url, one.key.0.unwrap_or_default(), one.variable))
    }

    #[test]
    fn a_key_in_its_customary_variable_names_its_provider() {
        for (variable, host) in [
            ("OPENAI_API_KEY", "https://api.openai.com/v1"),
            ("ANTHROPIC_API_KEY", "https://api.anthropic.com/v1"),
            ("GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai"),
        ] {
            let expected = Some((host.to_owned(), "k1".to_owned(), variable));
            assert_eq!(found(&[(variable, " k1\n")]), expected);
        }
        assert_eq!(found(&[("OPENAI_API_KEY", " ")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn anthropics_clients_may_name_another_address() {
        let env = [("ANTHROPIC_API_KEY", "k1"), ("ANTHROPIC_BASE_URL", "http://10.0.0.7:4000/")];
        let get = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let found = find_provider(get).unwrap();
        assert_eq!(
            (&*found.url, found.api),
            ("http://10.0.0.7:4000/v1", Some(ModelApi::Anthropic))
        );
    }

    #[test]
    fn a_gateway_of_this_machine_goes_out_by_the_proxy_and_reaches_its_own_without() {
        let of = |env: &[(&str, &str)]| {
            proxy_variables(|name| {
                env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert!(of(&[("NO_PROXY", "x"), ("HTTPS_PROXY", " ")]).is_empty());
        assert_eq!(
            of(&[("https_proxy", "http://proxy:3128"), ("no_proxy", "corp.example,")]),
            [
                pair("https_proxy", "http://proxy:3128"),
                pair("NO_PROXY", "corp.example,127.0.0.0/8,localhost,::1"),
            ]
        );
    }

    #[test]
    fn a_server_of_ones_own_gets_no_key_of_somebody_else() {
        let at = |env: &[(&str, &str)]| found(env).map(|(url, key, _)| (url, key));
        let none = |url: &str| Some((url.to_owned(), "none".to_owned()));
        assert_eq!(at(&[("OLLAMA_HOST", "0.0.0.0")]), none("http://127.0.0.1:11434/v1"));
        assert_eq!(
            at(&[("OLLAMA_HOST", "gpu.acme.dev:8000")]),
            none("http://gpu.acme.dev:8000/v1")
        );
        assert_eq!(at(&[("OLLAMA_HOST", "https://gpu/")]), none("https://gpu:11434/v1"));
        assert_eq!(at(&[("LLAMA_ARG_PORT", "8080")]), none("http://127.0.0.1:8080/v1"));
        let vllm = [("OPENAI_BASE_URL", "http://localhost:8000/v1"), ("ANTHROPIC_API_KEY", "k")];
        assert_eq!(at(&vllm), none("http://localhost:8000/v1"));
    }

    #[test]
    fn a_key_is_shown_to_nobody() {
        let found = find_provider(|name| (name == "OPENAI_API_KEY").then(|| "sk-1".to_owned()));
        assert!(!format!("{found:?}").contains("sk-1"));
    }
}
