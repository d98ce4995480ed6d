//! Programs whose verbs alone don't tell.

use super::super::shell::{HOLE, ShellWord};
use super::{ProgramReach, only_tells, positional_args};

/// Judges programs by rules that no table can express; nothing if the table decides.
pub(super) fn special_reach(
    name: &str,
    rest: &[ShellWord],
    texts: &[&str],
) -> Option<ProgramReach> {
    let leaves = |what: &str| Some(ProgramReach::Leaves(format!("{name}{what}")));
    let pushes = || {
        texts.iter().any(|text| {
            matches!(*text, "--push" | "--push=true")
                || text.contains("type=registry")
                || text.contains("push=true")
        })
    };
    match name {
        "docker" | "podman" | "docker-buildx" | "earthly" if pushes() => leaves(" --push"),
        "docker" | "podman" if names_host(texts) && !only_looks(rest) => leaves(" elsewhere"),
        "ssh" | "sftp" | "telnet" => {
            let tells = matches!(texts, ["-V" | "-Q" | "-G", ..] | []);
            if tells { Some(ProgramReach::Stays) } else { leaves(" to another host") }
        }
        "scp" | "rsync" => {
            let remote = rest.iter().any(|word| word.as_deref().is_none_or(is_remote_path));
            let listens = name == "rsync" && only_tells(texts);
            if remote && !listens { leaves(" to another host") } else { Some(ProgramReach::Stays) }
        }
        "gh" | "glab" => Some(forge_reach(name, rest, texts)),
        "aws" => aws_reach(rest, texts),
        "gsutil" => match positional_args(rest, "").as_slice() {
            [Some("cp" | "rsync"), .., Some(to)] if !to.starts_with("gs://") => {
                Some(ProgramReach::Stays)
            }
            _ => None,
        },
        "ansible-playbook" | "ansible" => {
            let looks = texts.iter().any(|text| {
                matches!(*text, "--check" | "-C" | "--syntax-check" | "--version" | "--help")
                    || text.starts_with("--list")
            });
            let local = texts.windows(2).any(|two| {
                matches!(two, ["-i", "localhost,"] | ["-c", "local"] | ["-m", "ping" | "setup"])
            });
            if looks || local { Some(ProgramReach::Stays) } else { leaves(" changes other hosts") }
        }
        "cdk" | "serverless" | "sls" | "sam" => {
            let verb = positional_args(rest, "").into_iter().next().flatten();
            let stays = verb.is_none_or(|verb| {
                matches!(
                    verb,
                    "build"
                        | "validate"
                        | "local"
                        | "init"
                        | "package"
                        | "synth"
                        | "diff"
                        | "ls"
                        | "list"
                        | "invoke-local"
                        | "offline"
                        | "print"
                        | "info"
                )
            });
            stays.then_some(ProgramReach::Stays)
        }
        "netlify" | "wrangler" | "amplify" | "supabase" | "firebase" | "eb" | "railway" | "cog" => {
            let verb = positional_args(rest, "").into_iter().next().flatten();
            matches!(verb, Some("build" | "init" | "start" | "stop" | "migration" | "gen" | "test"))
                .then_some(ProgramReach::Stays)
        }
        "goreleaser"
            if texts
                .iter()
                .any(|t| matches!(*t, "--snapshot" | "--skip=publish" | "build" | "check")) =>
        {
            Some(ProgramReach::Stays)
        }
        "lerna" if texts.first() == Some(&"version") => {
            let local =
                texts.iter().any(|text| matches!(*text, "--no-push" | "--no-git-tag-version"));
            if local { Some(ProgramReach::Stays) } else { leaves(" version pushes") }
        }
        "changeset" if texts.first() == Some(&"version") => Some(ProgramReach::Stays),
        "ko" if texts.first() == Some(&"build") && texts.contains(&"--local") => {
            Some(ProgramReach::Stays)
        }
        // `cargo install --list` and others are asked by name only.
        _ => None,
    }
}

/// True if a daemon of another host is named.
fn names_host(texts: &[&str]) -> bool {
    texts.iter().take_while(|text| **text != "--").any(|text| {
        text.starts_with("ssh://")
            || text.starts_with("tcp://")
            || text.starts_with("--context=")
            || text.starts_with("--host=ssh")
            || text.starts_with("--host=tcp")
    }) || matches!(texts.first(), Some(&("--context" | "-c")))
}

fn only_looks(rest: &[ShellWord]) -> bool {
    let verbs = positional_args(rest, "--context -c -H --host --config");
    matches!(
        verbs.first(),
        Some(Some("ps" | "images" | "logs" | "inspect" | "info" | "version" | "stats" | "top"))
    )
}

/// `host:path`, but not `./a:b`.
fn is_remote_path(word: &str) -> bool {
    if word.starts_with('-') {
        return false;
    }
    word.contains("://")
        || word.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'))
}

/// Forges: verbs that only look, and what its API is asked.
fn forge_reach(name: &str, rest: &[ShellWord], texts: &[&str]) -> ProgramReach {
    if only_tells(texts) {
        return ProgramReach::Stays;
    }
    let verbs = positional_args(rest, "-R --repo --hostname");
    let of = |at: usize| verbs.get(at).copied().flatten().unwrap_or_default();
    let looks = match of(0) {
        "" => texts.is_empty() || texts.iter().all(|text| text.starts_with('-')),
        "search" | "status" | "browse" | "version" | "help" | "config" | "alias" | "extension"
        | "completion" | "auth" | "attestation" => true,
        "api" => !writes_api(rest, texts),
        _ => matches!(
            of(1),
            "view"
                | "list"
                | "diff"
                | "checks"
                | "status"
                | "checkout"
                | "clone"
                | "download"
                | "watch"
                | "get"
                | "ls"
                | "show"
                | "ports"
                | "trace"
                | "lint"
        ),
    };
    if looks && verbs.first() != Some(&None) {
        return ProgramReach::Stays;
    }
    let said: Vec<&str> = [name, of(0), of(1)].into_iter().filter(|w| !w.is_empty()).collect();
    ProgramReach::Leaves(said.join(" "))
}

fn writes_api(rest: &[ShellWord], texts: &[&str]) -> bool {
    let method = texts.windows(2).find(|two| matches!(two[0], "-X" | "--method")).map(|two| two[1]);
    let method = method.or_else(|| {
        texts.iter().find_map(|text| text.strip_prefix("-X").or(text.strip_prefix("--method=")))
    });
    if let Some(method) = method.filter(|method| !method.is_empty()) {
        return !method.eq_ignore_ascii_case("get");
    }
    if texts.contains(&"graphql") {
        let unseen = rest.iter().any(Option::is_none) || texts.iter().any(|t| t.contains("=@"));
        return unseen || texts.iter().any(|text| text.to_lowercase().contains("mutation"));
    }
    texts.iter().any(|text| {
        matches!(*text, "-f" | "-F" | "--field" | "--raw-field" | "--input")
            || text.starts_with("--field=")
            || text.starts_with("--raw-field=")
            || text.starts_with("--input=")
    })
}

fn aws_reach(rest: &[ShellWord], texts: &[&str]) -> Option<ProgramReach> {
    let endpoint = texts.windows(2).find(|two| two[0] == "--endpoint-url").map(|two| two[1]);
    let endpoint = endpoint.or(texts.iter().find_map(|t| t.strip_prefix("--endpoint-url=")));
    if endpoint.is_some_and(is_local_url) {
        return Some(ProgramReach::Stays);
    }
    let verbs = positional_args(rest, "--profile --region --output --query --color");
    match verbs.as_slice() {
        // Fetched from there.
        [Some("s3"), Some("cp" | "sync"), Some(from), Some(to), ..]
            if from.starts_with("s3://") && !to.starts_with("s3://") =>
        {
            Some(ProgramReach::Stays)
        }
        _ => None,
    }
}

/// True if an address is the sandbox's own.
pub(crate) fn is_local_url(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = host.rsplit('@').next().unwrap_or(host);
    is_local_host(host)
}

/// The same of a host with or without a port.
pub(crate) fn is_local_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None if host.matches(':').count() == 1 => host.split(':').next().unwrap_or(host),
        None => host,
    };
    // A hole in the port is fine, one in the name is not.
    !name.contains(HOLE)
        && (matches!(name, "localhost" | "::1" | "0.0.0.0" | "")
            || name.starts_with("127.")
            || name.ends_with(".localhost")
            || name.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sandboxs_own_addresses_are_local() {
        for local in ["http://localhost:3000/x", "127.0.0.1", "http://a@[::1]:8/", "/run/x.sock"] {
            assert!(is_local_url(local) || is_local_host(local), "{local}");
        }
        for remote in [
            "https://example.com",
            "http://localhost.example.com/",
            "http://localhost@evil.com/",
            "\0",
        ] {
            assert!(!is_local_url(remote), "{remote}");
        }
    }
}
