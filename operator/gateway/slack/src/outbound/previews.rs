//! Links to pages of threads, shown in Slack with what the page says at a glance. Only in the channel that the
//! thread belongs to, whose people may see the page; elsewhere a link stays a link.

use std::sync::Arc;

use codebutler_crds::SlackTs;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use url::Url;

use crate::api::account::AccessError;
use crate::api::channel::RepoChannel;
use crate::text::mrkdwn;
use crate::{Inner, SlackGateway};

/// Most links of one message that are shown.
const MOST: usize = 5;
/// Longest title, in characters.
const TITLE: usize = 200;

/// A link that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewAsked {
    /// Namespace and name of the thread.
    pub thread: (String, String),
    /// Channel in which the link was posted.
    pub channel: String,
    /// Namespace and name of the Repos whose app has heard of it there.
    pub repos: Vec<(String, String)>,
}

/// Summary of a page, as plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewShown {
    pub title: String,
    /// Facts about the thread: state, cost and the like.
    pub facts: Vec<String>,
}

/// Service that looks a page up; `None`: it is not for everybody in that channel, or not there.
pub(crate) type PreviewDesk =
    Arc<dyn Fn(PreviewAsked) -> BoxFuture<'static, Option<PreviewShown>> + Send + Sync>;

impl SlackGateway {
    /// Has links to pages shown from now on.
    pub fn preview_with(&self, desk: PreviewDesk) {
        self.inner.services.attach_previews(desk);
    }
}

/// Parses the address of a thread's page into the thread's namespace and name.
pub(crate) fn page_thread(base: &str, link: &str) -> Option<(String, String)> {
    let (base, link) = (Url::parse(base).ok()?, Url::parse(link).ok()?);
    if base.origin() != link.origin() {
        return None;
    }
    let below = link.path().strip_prefix(base.path().trim_end_matches('/'))?;
    let mut parts = below.strip_prefix('/')?.split('/');
    let (namespace, name) = (parts.next()?, parts.next()?);
    let is_name = |part: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b);
        (1..=253).contains(&part.len()) && part.bytes().all(plain)
    };
    (is_name(namespace) && is_name(name)).then(|| (namespace.to_owned(), name.to_owned()))
}

/// Shows the links of a message that lead to pages of threads of its channel.
pub(crate) async fn show_previews(
    inner: &Inner,
    channels: &[RepoChannel],
    ts: &SlackTs,
    links: &[String],
) -> Result<(), AccessError> {
    let (desk, base) = (inner.services.previews(), inner.context.pages.clone());
    let (Some(desk), Some(base)) = (desk, base) else { return Ok(()) };
    let Some(first) = channels.first() else { return Ok(()) };
    let repos: Vec<_> =
        channels.iter().map(|one| (one.namespace.clone(), one.repo.clone())).collect();
    let mut unfurls = Map::new();
    let pages = links.iter().filter_map(|link| Some((link, page_thread(&base, link)?)));
    for (link, thread) in pages.take(MOST) {
        let (channel, repos) = (first.id.clone(), repos.clone());
        let asked = PreviewAsked { thread: thread.clone(), channel, repos };
        let shown = desk(asked).await;
        if let Some(shown) = shown {
            // The link is built anew, so that nothing of what was posted gets into the markup.
            let own = format!("{base}/{}/{}", thread.0, thread.1);
            unfurls.insert(link.clone(), json!({"blocks": preview_blocks(&own, &shown)}));
        }
    }
    let Some(repo) = inner.context.repo(&first.namespace, &first.repo) else { return Ok(()) };
    if unfurls.is_empty() {
        return Ok(());
    }
    let account = inner.account(&repo).await?;
    let body = json!({"channel": first.id, "ts": ts, "unfurls": unfurls});
    inner.web.upkeep().post::<Value>(&account.bot, "chat.unfurl", &body).await?;
    Ok(())
}

/// Blocks of a preview: a title that leads to the page, and one small line.
fn preview_blocks(link: &str, shown: &PreviewShown) -> Value {
    let one_line = shown.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut title: String = one_line.chars().take(TITLE).collect();
    if title.len() < one_line.len() {
        title.push('…');
    }
    let title = mrkdwn::escape_text(&title).replace('|', "¦");
    let facts = mrkdwn::escape_text(&shown.facts.join(" · "));
    json!([
        {"type": "section", "text":
            {"type": "mrkdwn", "verbatim": true, "text": format!("<{link}|{title}>")}},
        {"type": "context", "elements":
            [{"type": "mrkdwn", "verbatim": true, "text": facts}]},
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_threads_pages_are_looked_up() {
        let of = |base: &str, link: &str| page_thread(base, link).map(|(a, b)| format!("{a}/{b}"));
        let base = "https://pages.example.com/team-a";
        for link in ["/ns/shop-1-000002", "/ns/shop-1-000002/changes?x=1", "/ns/shop-1-000002#n3"] {
            let found = of(base, &format!("{base}{link}"));
            assert_eq!(found.as_deref(), Some("ns/shop-1-000002"), "{link}");
        }
        for link in [
            "https://pages.example.com/ns/shop-1-000002",
            "https://pages.example.com/team-a/costs",
            "https://pages.example.com/team-a/../ns/x",
            "https://pages.example.com/team-ab/ns/x",
            "https://pages.example.com:8443/team-a/ns/x",
            "http://pages.example.com/team-a/ns/x",
            "https://pages.example.com.evil.org/team-a/ns/x",
            "https://pages.example.com/team-a/ns/%2e%2e",
            "https://pages.example.com/team-a/ns/",
            "nonsense",
        ] {
            assert_eq!(of(base, link), None, "{link}");
        }
    }

    #[test]
    fn a_title_is_text_whatever_stands_in_it() {
        let title = format!("<!channel> *a* | b\n{}", "x".repeat(300));
        let facts = vec!["running".to_owned(), "$0.31".to_owned()];
        let blocks = preview_blocks("https://p.test/a/b", &PreviewShown { title, facts });
        let said = blocks[0]["text"]["text"].as_str().unwrap();
        assert!(said.starts_with("<https://p.test/a/b|&lt;!channel&gt; *a* ¦ b xxx"), "{said}");
        assert!(said.ends_with("…>") && !said.contains('\n'), "{said}");
        assert_eq!(blocks[1]["elements"][0]["text"], "running · $0.31");
    }
}
