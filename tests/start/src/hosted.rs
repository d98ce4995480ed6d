//! The size of a repository on a host, before it is cloned. Git has no way to ask for it, and GitHub's API tells it for
//! what everybody may read.

use std::process::{Command, Stdio};

use super::repository::{UnusableRepository, without_password};

/// Names of GitHub in addresses that Git takes.
const HOSTS: [&str; 3] = ["github.com", "www.github.com", "ssh.github.com"];
const API: &str = "https://api.github.com/repos";
/// Time limit in seconds for the answer. Without one nothing is known.
const PATIENCE: &str = "10";

/// Judges what a host says of a repository's size. Nothing is known of private ones, of other hosts than GitHub, and
/// where there is no `curl`.
///
/// # Errors
/// A sentence that says what to do.
pub(crate) fn judge_hosted_size(from: &str, limit: u64) -> Result<(), UnusableRepository> {
    let size = find_name(from).and_then(|name| ask_size(&name));
    if size.is_some_and(|megabytes| megabytes > limit) {
        return Err(UnusableRepository::Huge { from: without_password(from), limit });
    }
    Ok(())
}

/// Owner and name of a repository on GitHub.
fn find_name(from: &str) -> Option<String> {
    let (authority, path) = match from.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?,
        None => from.split_once(':')?,
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host).to_ascii_lowercase();
    let path = path.trim_matches('/');
    let (owner, name) = path.strip_suffix(".git").unwrap_or(path).split_once('/')?;
    let is_plain = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let is_one = HOSTS.contains(&&*host) && is_plain(owner) && is_plain(name);
    is_one.then(|| format!("{owner}/{name}"))
}

fn ask_size(name: &str) -> Option<u64> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--location", "--max-time", PATIENCE])
        .arg(format!("{API}/{name}"))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = curl.output().ok().filter(|output| output.status.success())?;
    read_size(&String::from_utf8_lossy(&output.stdout))
}

/// MB of a repository in GitHub's answer, which counts in KB. A quote within a text has a backslash before it there, so
/// no description can stand for the field.
fn read_size(answer: &str) -> Option<u64> {
    let (_, rest) = answer.split_once("\"size\":")?;
    let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse::<u64>().ok().map(|kilobytes| kilobytes.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_on_github_is_known_by_every_address_that_git_takes() {
        for (from, name) in [
            ("https://github.com/acme/shop", Some("acme/shop")),
            ("https://ana:hunter2@GitHub.com:443/acme/shop.git/", Some("acme/shop")),
            ("git@github.com:acme/.github", Some("acme/.github")),
            ("ssh://git@ssh.github.com:443/acme/shop.git", Some("acme/shop")),
            ("https://github.com/acme", None),
            ("https://github.com/acme/shop/tree/main", None),
            ("https://github.com/acme/shop?x=1", None),
            ("https://github.com.example.org/acme/shop", None),
            ("https://gitlab.com/acme/shop", None),
        ] {
            assert_eq!(find_name(from).as_deref(), name, "{from}");
        }
    }

    #[test]
    fn the_size_is_the_repositorys_own() {
        let answer = r#"{"description": "\"size\": 9", "size": 2000001, "parent": {"size": 5}}"#;
        assert_eq!(read_size(answer), Some(2001));
        assert_eq!(read_size("{\"size\":0}"), Some(0));
        for other in ["", "{}", "{\"size\": null}", "<html>"] {
            assert_eq!(read_size(other), None, "{other}");
        }
    }
}
