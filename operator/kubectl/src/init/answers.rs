//! What `init` has to know: from flags and the environment, and what is absent there from the person at the terminal.

use std::io::{BufRead, BufReader, IsTerminal as _};

use codebutler_crds::egress::EgressPreset;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use url::Url;

use crate::args::InitArgs;
use crate::{PluginError, PluginTerminal};

/// Answers for a new team, checked.
pub(super) struct TeamAnswers {
    pub namespace: String,
    /// Name of the Repo.
    pub repo: String,
    pub git_url: Url,
    pub branch: String,
    pub channel: String,
    pub model_url: Url,
    pub presets: Vec<EgressPreset>,
    pub bot_token: String,
    pub app_token: String,
    pub git_token: String,
    pub model_key: String,
}

/// Where models are asked unless somebody says otherwise.
const MODELS: &str = "https://openrouter.ai/api/v1";
/// Longest name of a Repo.
const LONGEST: usize = 32;

/// Asks for what is not known.
pub(super) fn ask_for_answers(
    wanted: &InitArgs,
    namespace: Option<&str>,
    terminal: &mut PluginTerminal<'_>,
) -> Result<TeamAnswers, PluginError> {
    let mut input = BufReader::new(&mut *terminal.input);
    let output = &mut *terminal.output;
    let mut ask = |given: Option<&str>, question: &str, usual: &str, secret: bool| {
        if let Some(given) = given {
            return Ok(given.trim().to_owned());
        }
        let shown = if usual.is_empty() { String::new() } else { format!(" [{usual}]") };
        writeln!(output, "{question}{shown}:").map_err(PluginError::io("asking"))?;
        let typed = if secret { read_hidden(&mut input)? } else { read_line(&mut input)? };
        Ok::<_, PluginError>(if typed.is_empty() { usual.to_owned() } else { typed })
    };
    let git_url = ask(wanted.git_url.as_deref(), "Repository, https://host/owner/name", "", false)?;
    let git_url = check_repository(&git_url)?;
    let repo = repo_name(&git_url);
    let namespace = ask(namespace, "Namespace of the team", &repo, false)?;
    let channel = ask(wanted.channel.as_deref(), "Slack channel, an id or #name", "", false)?;
    check_channel(&channel)?;
    let model_url = ask(wanted.model_url.as_deref(), "Model API", MODELS, false)?;
    let presets = ask(wanted.presets.as_deref(), &presets_question(), "", false)?;
    let bot_token = ask(wanted.slack_bot_token.as_deref(), "Slack bot token", "", true)?;
    let app_token = ask(wanted.slack_app_token.as_deref(), "Slack app-level token", "", true)?;
    let git_token = ask(wanted.git_token.as_deref(), "Git token", "", true)?;
    let model_key = ask(wanted.model_key.as_deref(), "Key of the model API", "", true)?;
    check_token("Slack bot token", &bot_token, "xoxb-")?;
    check_token("Slack app-level token", &app_token, "xapp-")?;
    check_token("Git token", &git_token, "")?;
    check_token("key of the model API", &model_key, "")?;
    Ok(TeamAnswers {
        namespace,
        repo,
        git_url,
        branch: wanted.branch.clone(),
        channel,
        model_url: check_url("model API", &model_url)?,
        presets: check_presets(&presets)?,
        bot_token,
        app_token,
        git_token,
        model_key,
    })
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

/// Without showing what is typed, where it is typed at a terminal.
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
        name => name.to_owned(),
    }
}

fn check_channel(text: &str) -> Result<(), PluginError> {
    let is_id = text.starts_with(['C', 'G'])
        && text.len() >= 3
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    if is_id || text.len() > 1 && text.starts_with('#') {
        return Ok(());
    }
    Err(PluginError::Input(format!(
        "the Slack channel is an id such as C0123ABCD or a name such as #shop, not `{text}`"
    )))
}

/// The token itself is in no message.
fn check_token(what: &str, token: &str, begins: &str) -> Result<(), PluginError> {
    if token.is_empty() {
        return Err(PluginError::Input(format!("the {what} is missing")));
    }
    if !token.starts_with(begins) {
        return Err(PluginError::Input(format!(
            "the {what} begins with {begins}; this one does not"
        )));
    }
    Ok(())
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
        assert!(sentence(check_channel("shop").unwrap_err()).contains("#shop"));
        assert!(sentence(check_presets("npm,cargo").unwrap_err()).contains("crates"));
        assert_eq!(check_presets("npm, npm go").unwrap(), [EgressPreset::Npm, EgressPreset::Go]);
        let refused = sentence(check_token("Slack bot token", "hunter2", "xoxb-").unwrap_err());
        assert!(refused.contains("xoxb-") && !refused.contains("hunter2"), "{refused}");
    }
}
