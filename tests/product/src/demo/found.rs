//! Providers that the environment names by their own customary variables: a key of OpenAI, Anthropic or Google, or
//! the address of a server of one's own.

use codebutler_crds::model::ModelApi;
use codebutler_start::NamedProvider;

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
    let NamedProvider { url, key, variable, is_anthropic } = codebutler_start::find_provider(env)?;
    let api = is_anthropic.then_some(ModelApi::Anthropic);
    Some(FoundProvider { url, key: SecretKey(Some(key)), variable, api })
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
        assert_eq!(at(&[("OLLAMA_HOST", "https://gpu/")]), none("https://gpu:443/v1"));
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
