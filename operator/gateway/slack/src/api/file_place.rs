//! Addresses of a file. Slack redirects a download from one of its hosts to another one, or to a host that only stores
//! files. Pure.

use url::Url;

/// Most redirects that are followed.
pub(crate) const HOPS: usize = 3;
/// Hosts that store Slack's files. The address itself gives access there: no token is sent.
const STORES: [&str; 2] = ["slack-files.com", "slack-edge.com"];

/// An address of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePlace {
    pub url: Url,
    /// True for an address at Slack itself, which wants the token.
    pub wants_token: bool,
}

/// Finds the place to which a redirect from `from` leads; `None` for Slack's sign-in page, and for hosts that are not
/// Slack's.
pub(crate) fn next_place(
    from: &Url,
    location: &str,
    is_slack: impl Fn(&Url) -> bool,
) -> Option<FilePlace> {
    let url = from.join(location).ok()?;
    if is_slack(&url) {
        let is_file = url.path().starts_with("/files-");
        return is_file.then_some(FilePlace { url, wants_token: true });
    }
    let host = url.host_str().unwrap_or_default();
    let is_in = |store: &&str| {
        host.strip_suffix(*store).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_store = url.scheme() == "https" && url.port().is_none() && STORES.iter().any(is_in);
    is_store.then_some(FilePlace { url, wants_token: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_with_slack_and_a_file_is_had_from_its_stores() {
        let from: Url = "https://files.slack.com/files-pri/T1-F1/a.pdf".parse().unwrap();
        let is_slack = |url: &Url| url.host_str().is_some_and(|host| host.ends_with(".slack.com"));
        let next = |location: &str| {
            next_place(&from, location, is_slack)
                .map(|place| (place.url.to_string(), place.wants_token))
        };
        for (location, wants_token) in [
            ("https://files-origin.slack.com/files-pri/T1-F1/a.pdf", true),
            ("https://slack-files.com/files-pri/T1-F1/a.pdf?s=1", false),
            ("https://a.slack-edge.com/T1-F1/a.pdf", false),
        ] {
            assert_eq!(next(location), Some((location.to_owned(), wants_token)));
        }
        let moved = "https://files.slack.com/files-pri/T1-F1/download/a.pdf";
        assert_eq!(next("/files-pri/T1-F1/download/a.pdf"), Some((moved.to_owned(), true)));
        for location in [
            "https://team.slack.com/?redir=%2Ffiles-pri%2FT1-F1%2Fa.pdf",
            "/signin",
            "https://evil.example/files-pri/T1-F1/a.pdf",
            "https://evilslack-files.com/a.pdf",
            "http://slack-files.com/a.pdf",
            "https://slack-files.com:8443/a.pdf",
            "https://slack-files.com@evil.example/a.pdf",
            "",
        ] {
            assert_eq!(next(location).filter(|(url, _)| *url != from.as_str()), None, "{location}");
        }
    }
}
