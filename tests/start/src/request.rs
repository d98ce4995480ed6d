//! The demo that was asked for: judged before the build, where the demo itself would refuse it after minutes.

use std::path::{Path, PathBuf};

use super::hosted::judge_hosted_size;
use super::options::GivenOptions;
use super::provider::find_url;
use super::reach::{ServerAddress, find_obstacle};
use super::repository::{judge_remote, judge_repository, judge_size, local_path};
use super::rules::find_broken_rule;

/// MB that a repository may have where `--repo-limit` names no other number.
pub const REPO_LIMIT_MB: u64 = 2000;
/// The file by which a kept demo's folder is known.
pub const KEPT: &str = "codebutler-demo.json";
/// Host whose names of models the shipped roles have.
const ROUTER: &str = "openrouter.ai";

/// All that is to be said of a demo before it is built.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestVerdict {
    /// Sentences about what is in the way, each with the way out.
    pub troubles: Vec<String>,
    pub notices: Vec<String>,
}

/// Judges what the user asked for. What needs a network is left to the demo where it is built: it says it in seconds.
pub(crate) fn judge_request(
    options: &GivenOptions,
    has_git: bool,
    is_built: bool,
    env: &impl Fn(&str) -> Option<String>,
) -> RequestVerdict {
    let mut verdict = RequestVerdict::default();
    let wrong = options.find_wrong_word().or_else(|| find_broken_rule(options, env));
    if let Some(wrong) = wrong {
        verdict.troubles.push(wrong);
        return verdict;
    }
    if let Some(file) = options.demo_value("--scenario").filter(|file| !Path::new(file).is_file()) {
        verdict.troubles.push(format!(
            "{file} is no file: name a scenario, such as tests/scenarios/bugfix.yaml"
        ));
    }
    if let Some(folder) = options.demo_value("--bench").filter(|dir| !Path::new(dir).is_dir()) {
        verdict
            .troubles
            .push(format!("{folder} is no folder of tasks: name one, such as tests/bench"));
    }
    let state = options.demo_value("--state").map(PathBuf::from);
    verdict.troubles.extend(state.as_deref().and_then(judge_state));
    let Some(from) = options.demo_value("--repo") else { return verdict };
    // A kept demo has its clone already.
    let is_kept = state.is_some_and(|folder| folder.join(KEPT).exists());
    if has_git && !is_kept {
        let branch = options.demo_value("--branch");
        let limit = options.demo_value("--repo-limit").and_then(|limit| limit.parse().ok());
        let limit = limit.unwrap_or(REPO_LIMIT_MB);
        let judged = match local_path(&from) {
            Some(path) => judge_repository(&from, &path, branch.as_deref())
                .and_then(|()| judge_size(&from, &path, limit)),
            None if is_built => Ok(()),
            None => judge_remote(&from, branch.as_deref())
                .and_then(|()| judge_hosted_size(&from, limit)),
        };
        verdict.troubles.extend(judged.err().map(|unusable| unusable.to_string()));
    }
    if options.is_chat() && !is_built {
        judge_models(options, env, &mut verdict);
    }
    verdict
}

/// Judges the folder in which a demo is kept: a new one, an empty one, or that of an earlier demo.
fn judge_state(folder: &Path) -> Option<String> {
    let shown = folder.display();
    if folder.is_file() {
        return Some(format!("{shown} is a file: name a folder with --state"));
    }
    let is_used = folder.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    (is_used && !folder.join(KEPT).exists()).then(|| {
        format!(
            "{shown} is not empty and holds no demo: name a new folder with --state, or that of an earlier \
             demo"
        )
    })
}

fn judge_models(
    options: &GivenOptions,
    env: &impl Fn(&str) -> Option<String>,
    verdict: &mut RequestVerdict,
) {
    let Some((url, variable)) = find_url(options.demo_value("--model-url"), env) else {
        verdict.notices.push(
            "No models are named: once it is built, the demo asks at the terminal for a key or an address. Without one it \
             can look around the repository and no more. OPENROUTER_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY or \
             GEMINI_API_KEY holds a key, and CODEBUTLER_MODEL_URL the address of a server of yours."
                .to_owned(),
        );
        return;
    };
    let Some(server) = ServerAddress::parse(&url) else {
        verdict.troubles.push(format!("{variable} has to look like https://host/v1"));
        return;
    };
    verdict.troubles.extend(find_obstacle(&server, variable, env));
    let mut notice = format!("Models: {} ({variable} names it).", server.host);
    if server.host == ROUTER {
        notice.push_str(" A first question costs less than two cents there (measured by `cargo figures price`).");
    }
    verdict.notices.push(notice);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn judged(line: &str, is_built: bool, env: &[(&str, &str)]) -> RequestVerdict {
        let options = GivenOptions::parse(line.split_whitespace().map(OsString::from));
        judge_request(&options, false, is_built, &|name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn without_a_key_it_is_said_before_the_build_what_the_demo_can_do() {
        let bare = judged("-- --repo ./shop", false, &[]);
        assert!(bare.troubles.is_empty() && bare.notices.len() == 1, "{bare:?}");
        assert!(bare.notices[0].contains("can look around the repository and no more"), "{bare:?}");
        assert!(bare.notices[0].contains("OPENROUTER_API_KEY"), "{bare:?}");
        for quiet in ["", "-- --repo ./shop --scenario Cargo.toml"] {
            assert!(judged(quiet, false, &[]).notices.is_empty(), "{quiet}");
        }
        let built = judged("-- --repo ./shop", true, &[("CODEBUTLER_MODEL_URL", "models")]);
        assert_eq!(built, RequestVerdict::default(), "the demo itself says it in seconds");
    }

    #[test]
    fn an_address_that_is_none_is_in_the_way() {
        let wrong = judged("-- --repo ./shop", false, &[("CODEBUTLER_MODEL_URL", "models")]);
        assert_eq!(wrong.troubles, ["CODEBUTLER_MODEL_URL has to look like https://host/v1"]);
        let missing = judged("-- --scenario nowhere.yaml", true, &[]);
        assert!(missing.troubles[0].contains("nowhere.yaml is no file"), "{missing:?}");
        let mistyped = judged("-- --senario nowhere.yaml", true, &[]);
        assert!(mistyped.troubles[0].contains("no option `--senario`"), "{mistyped:?}");
    }
}
