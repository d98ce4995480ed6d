//! Collects the answers that `init` needs: from flags and the environment, and the rest from the person at the
//! terminal.

use std::io::{BufRead, BufReader, IsTerminal as _, Write};

use codebutler_crds::egress::EgressPreset;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use url::Url;

use crate::args::InitArgs;
use crate::{PluginError, PluginTerminal};

/// Answers for a new team, checked.
pub(super) struct TeamAnswers {
    pub namespace: String,
    /// Name for the Repo object.
    pub repo: String,
    pub git_url: Url,
    pub branch: String,
    pub channel: String,
    pub model_url: Url,
    pub presets: Vec<EgressPreset>,
    pub allow_own_node: bool,
    pub bot_token: String,
    pub app_token: String,
    pub git_token: String,
    pub model_key: String,
}

/// Default base URL of the model API.
const MODELS: &str = "https://openrouter.ai/api/v1";
/// Longest name of a Repo, in characters.
const LONGEST: usize = 32;
/// Providers that serve nobody without a key.
const KEYED: [&str; 4] =
    ["openrouter.ai", "api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"];
/// Git services without GitHub's API, on which no pull request could be made.
const OTHER_SERVICES: [&str; 5] =
    ["gitlab.com", "bitbucket.org", "codeberg.org", "dev.azure.com", "gitea.com"];
const KEY_OR_NONE: &str = "Key of the model API (Enter alone: it wants none)";
/// Stand-in for the key of a server that wants none.
const NO_KEY: &str = "none";

/// Asks for all answers that flags and environment do not give.
pub(super) fn ask_for_answers(
    wanted: &InitArgs,
    namespace: Option<&str>,
    terminal: &mut PluginTerminal<'_>,
) -> Result<TeamAnswers, PluginError> {
    let mut input = BufReader::new(&mut *terminal.input);
    let output = &mut *terminal.output;
    let mut asker = TerminalPrompter { input: &mut input, output };
    let git_url =
        AnswerPrompt::open(wanted.git_url.as_deref(), "Repository, https://host/owner/name");
    let git_url = asker.ask(&git_url, check_repository)?;
    let repo = repo_name(&git_url);
    let namespace =
        AnswerPrompt { usual: &repo, ..AnswerPrompt::open(namespace, "Namespace of the team") };
    let namespace = asker.ask(&namespace, check_namespace)?;
    let channel = AnswerPrompt::open(wanted.channel.as_deref(), "Slack channel, an id or #name");
    let channel = asker.ask(&channel, check_channel)?;
    let model_url = AnswerPrompt::open(wanted.model_url.as_deref(), "Model API");
    let model_url = AnswerPrompt { usual: MODELS, ..model_url };
    let model_url = asker.ask(&model_url, |text| check_url("model API", text))?;
    let question = presets_question();
    let presets = AnswerPrompt::open(wanted.presets.as_deref(), &question);
    let presets = asker.ask(&presets, check_presets)?;
    let mut token = |given: Option<&str>, what: &str, begins: &str| {
        let question = AnswerPrompt { is_secret: true, ..AnswerPrompt::open(given, what) };
        asker.ask(&question, |text| check_token(what, text, begins))
    };
    let bot_token = token(wanted.slack_bot_token.as_deref(), "Slack bot token", "xoxb-")?;
    let app_token = token(wanted.slack_app_token.as_deref(), "Slack app-level token", "xapp-")?;
    let git_token = token(wanted.git_token.as_deref(), "Git token", "")?;
    let needs_key = model_url.host_str().is_some_and(|host| KEYED.contains(&host));
    let question = if needs_key { "Key of the model API" } else { KEY_OR_NONE };
    let model_key = AnswerPrompt {
        is_secret: true,
        ..AnswerPrompt::open(wanted.model_key.as_deref(), question)
    };
    let model_key = asker.ask(&model_key, |text| match text {
        "" if !needs_key => Ok(NO_KEY.to_owned()),
        text => check_token("key of the model API", text, ""),
    })?;
    Ok(TeamAnswers {
        namespace,
        repo,
        git_url,
        branch: wanted.branch.clone(),
        channel,
        model_url,
        presets,
        allow_own_node: wanted.allow_own_node,
        bot_token,
        app_token,
        git_token,
        model_key,
    })
}

/// A question, and what is known of its answer.
#[derive(Clone, Copy)]
struct AnswerPrompt<'a> {
    /// Value of the flag, or of the environment.
    given: Option<&'a str>,
    text: &'a str,
    /// Answer that Enter alone stands for.
    usual: &'a str,
    is_secret: bool,
}

impl<'a> AnswerPrompt<'a> {
    const fn open(given: Option<&'a str>, text: &'a str) -> Self {
        Self { given, text, usual: "", is_secret: false }
    }
}

/// Asks questions at a terminal.
struct TerminalPrompter<'a, R> {
    input: &'a mut R,
    output: &'a mut (dyn Write + Send),
}

impl<R: BufRead> TerminalPrompter<'_, R> {
    /// Asks until the answer is valid. A value from a flag is checked, but not asked for.
    fn ask<T>(
        &mut self,
        question: &AnswerPrompt<'_>,
        check: impl Fn(&str) -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        let AnswerPrompt { given, text, usual, is_secret } = *question;
        if let Some(given) = given {
            return check(given.trim());
        }
        let shown = if usual.is_empty() { String::new() } else { format!(" [{usual}]") };
        loop {
            writeln!(self.output, "{text}{shown}:").map_err(PluginError::io("asking"))?;
            let typed = if is_secret { read_hidden(self.input)? } else { read_line(self.input)? };
            match check(if typed.is_empty() { usual } else { &typed }) {
                Ok(answer) => return Ok(answer),
                Err(why) => {
                    writeln!(self.output, "{why}. Once more, please.")
                        .map_err(PluginError::io("asking"))?;
                }
            }
        }
    }
}

fn presets_question() -> String {
    let names = EgressPreset::ALL.map(EgressPreset::name).join(", ");
    format!("Registries that builds download from, of {names}")
}

fn read_line(input: &mut impl BufRead) -> Result<String, PluginError> {
    let mut line = String::new();
    let read = input.read_line(&mut line).map_err(PluginError::io("reading the answer"))?;
    if read == 0 {
        return Err(PluginError::Input(
            "the answers end here: give the rest as flags and in the environment (`--help`)"
                .to_owned(),
        ));
    }
    Ok(line.trim().to_owned())
}

/// Reads a line; at a terminal, the input is not shown.
fn read_hidden(input: &mut impl BufRead) -> Result<String, PluginError> {
    let stdin = std::io::stdin();
    let shown = stdin.is_terminal().then(|| tcgetattr(&stdin).ok()).flatten();
    if let Some(shown) = &shown {
        let mut hidden = shown.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        let _ = tcsetattr(&stdin, SetArg::TCSANOW, &hidden);
    }
    let line = read_line(input);
    if let Some(shown) = &shown {
        let _ = tcsetattr(&stdin, SetArg::TCSANOW, shown);
    }
    line
}

fn check_url(what: &str, text: &str) -> Result<Url, PluginError> {
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.password().is_none()
    });
    url.ok_or_else(|| {
        PluginError::Input(format!("the {what} has to look like https://host/path, not `{text}`"))
    })
}

fn check_repository(text: &str) -> Result<Url, PluginError> {
    let url = check_url("repository", text)?;
    if let Some(host) = url.host_str().filter(|host| OTHER_SERVICES.contains(host)) {
        return Err(PluginError::Input(format!(
            "pull requests are made on GitHub and GitHub Enterprise alone, and {host} is another service: name a repository \
             on GitHub"
        )));
    }
    let parts = url.path_segments().map(|parts| parts.filter(|part| !part.is_empty()).count());
    if parts == Some(2) {
        return Ok(url);
    }
    Err(PluginError::Input(format!(
        "the repository has to look like https://host/owner/name, not `{text}`"
    )))
}

/// The repository's own name, as far as Kubernetes allows it.
fn repo_name(url: &Url) -> String {
    let last = url.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let last = last.strip_suffix(".git").unwrap_or(last).to_ascii_lowercase();
    let name: String = last
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(LONGEST)
        .collect();
    match name.trim_matches('-') {
        "" => "repo".to_owned(),
        // A DNS label may begin with a digit, but a Service's name may not.
        name if name.starts_with(|first: char| first.is_ascii_digit()) => format!("repo-{name}"),
        name => name.to_owned(),
    }
}

fn check_namespace(text: &str) -> Result<String, PluginError> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if text.len() <= 63
        && text.chars().all(is_plain)
        && is_edge(text.chars().next())
        && is_edge(text.chars().next_back())
    {
        return Ok(text.to_owned());
    }
    Err(PluginError::Input(format!(
        "a namespace has lower-case letters, digits and hyphens, 63 at most, not `{text}`"
    )))
}

fn check_channel(text: &str) -> Result<String, PluginError> {
    let is_id = text.starts_with(['C', 'G'])
        && text.len() >= 3
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    if is_id || text.len() > 1 && text.starts_with('#') {
        return Ok(text.to_owned());
    }
    Err(PluginError::Input(format!(
        "the Slack channel is an id such as C0123ABCD or a name such as #shop, not `{text}`"
    )))
}

/// The token itself is in no message.
fn check_token(what: &str, token: &str, begins: &str) -> Result<String, PluginError> {
    if token.is_empty() {
        return Err(PluginError::Input(format!("the {what} is missing")));
    }
    if !token.starts_with(begins) {
        return Err(PluginError::Input(format!(
            "the {what} begins with {begins}; this one does not"
        )));
    }
    Ok(token.to_owned())
}

fn check_presets(text: &str) -> Result<Vec<EgressPreset>, PluginError> {
    let names = text.split([',', ' ']).filter(|name| !name.is_empty());
    let mut presets = Vec::new();
    for name in names {
        let known = EgressPreset::ALL.into_iter().find(|preset| preset.name() == name);
        let preset = known.ok_or_else(|| {
            let names = EgressPreset::ALL.map(EgressPreset::name).join(", ");
            PluginError::Input(format!("`{name}` is no egress preset: there are {names}"))
        })?;
        if !presets.contains(&preset) {
            presets.push(preset);
        }
    }
    Ok(presets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repo_is_named_after_its_repository() {
        for (url, name) in [
            ("https://github.com/acme/shop", "shop"),
            ("https://github.com/acme/Shop_Front.git", "shop-front"),
            ("https://github.com/acme/.github", "github"),
            ("https://github.com/acme/2048", "repo-2048"),
        ] {
            assert_eq!(repo_name(&check_repository(url).unwrap()), name);
        }
    }

    #[test]
    fn what_can_t_be_meant_is_named_and_no_token_is_repeated() {
        let sentence = |error: PluginError| error.to_string();
        assert!(
            sentence(check_repository("github.com/acme/shop").unwrap_err())
                .contains("https://host")
        );
        assert!(
            sentence(check_repository("https://github.com/acme").unwrap_err())
                .contains("owner/name")
        );
        let other = sentence(check_repository("https://gitlab.com/acme/shop").unwrap_err());
        assert!(other.contains("GitHub Enterprise alone, and gitlab.com is another"), "{other}");
        assert!(check_repository("https://gitlab.acme.dev/acme/shop").is_ok(), "who knows");
        assert!(sentence(check_channel("shop").unwrap_err()).contains("#shop"));
        assert!(sentence(check_presets("npm,cargo").unwrap_err()).contains("crates"));
        assert_eq!(check_presets("npm, npm go").unwrap(), [EgressPreset::Npm, EgressPreset::Go]);
        let refused = sentence(check_token("Slack bot token", "hunter2", "xoxb-").unwrap_err());
        assert!(refused.contains("xoxb-") && !refused.contains("hunter2"), "{refused}");
    }
}
