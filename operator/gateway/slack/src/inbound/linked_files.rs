//! Files, canvases and lists of Slack that a message only links to. As with messages, what only a private
//! channel has stays there: who posts a link may not be in it.

use codebutler_crds::Repo;
use serde_json::Value;

use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::lenient::UnreadFields;
use crate::api::stored_message::SharedMessage;
use crate::api::web::CallError;
use crate::inbound::files;
use crate::text::quoting::{describe_file, shown_link};

/// Longest file id, in characters.
const MAX_ID: usize = 40;

/// The id of the file to which a path in the workspace leads.
pub(super) fn file_of<'a>(path: &[&'a str]) -> Option<&'a str> {
    let id = match path {
        ["files" | "docs" | "lists", _, id, ..] | ["canvas", id] => *id,
        _ => return None,
    };
    let plain = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit();
    (id.len() <= MAX_ID && id.starts_with('F') && id.bytes().all(plain)).then_some(id)
}

/// Content of a linked file, or a remark on why it is not here.
pub(super) async fn describe_linked(
    inner: &Inner,
    (repo, account): (&Repo, &SlackAccount),
    id: &str,
) -> String {
    match read_linked(inner, (repo, account), id).await {
        Ok(said) => said,
        Err(error) => {
            tracing::info!(%error, "linked_file_unreadable");
            "[linked file: the app can't read it there]".to_owned()
        }
    }
}

async fn read_linked(
    inner: &Inner,
    (repo, account): (&Repo, &SlackAccount),
    id: &str,
) -> Result<String, CallError> {
    let answer: Value = inner.web.get(&account.bot, "files.info", &[("file", id)]).await?;
    let about = &answer["file"];
    if !is_open(about, repo.channel()) {
        return Ok(
            "[linked file: in a private channel, so it is not read here; paste what matters]"
                .to_owned(),
        );
    }
    let mut unread = UnreadFields::default();
    let file = SharedMessage::read(about, "file", &mut unread);
    inner.metrics.unread(unread.iter());
    // Slack was asked about it, so the answer stands: it is not to be looked up again.
    let file = SharedMessage { id: id.to_owned(), file_access: String::new(), ..file };
    let named = describe_file(&file);
    if let Some(why) = file.withheld() {
        return Ok(format!("[linked file {named}: {why}]"));
    }
    let content = files::linked_text(inner, (repo, account), &file).await?;
    Ok(content.map_or_else(
        || format!("[linked file {named}: not read from a link; attach it to a message, or paste what matters]"),
        |text| shown_link(&format!("linked file {named}"), &text),
    ))
}

/// True if everybody in the Repo's channel may read a file: it is in that channel, or in a public one.
fn is_open(about: &Value, own: Option<&str>) -> bool {
    let shares = |kind: &str| about["shares"][kind].as_object();
    let is_here = |channel: &str| {
        let mut kinds = ["public", "private"].into_iter().filter_map(shares);
        kinds.any(|channels| channels.contains_key(channel))
    };
    about["is_public"] == true
        || shares("public").is_some_and(|channels| !channels.is_empty())
        || own.is_some_and(is_here)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_in_a_public_channel_or_in_the_own_one_is_open() {
        let private = json!({"is_public": false, "shares": {"private": {"C1": [{}]}}});
        assert!(is_open(&private, Some("C1")));
        for closed in [&private, &json!({}), &json!({"is_public": "true", "shares": []})] {
            assert!(!is_open(closed, Some("C2")) && !is_open(closed, None), "{closed}");
        }
        assert!(is_open(&json!({"is_public": true}), None));
        assert!(is_open(&json!({"shares": {"public": {"C3": []}}}), None));
    }
}
