//! Pages before and after a change, in the thread of the change: all pictures in one message, once for each key.

use std::sync::Arc;

use bytes::Bytes;
use codebutler_crds::wire::history::ViewShown;
use codebutler_crds::wire::{
    ErrorCode, MessageAuthor, PageColors, PageWidth, SharedPicture, ThreadMessage, describe_view,
};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;

use crate::SlackGateway;
use crate::api::account::AccessError;
use crate::api::web::CallError;
use crate::outbound::post::attach_together;
use crate::outbound::uploads::{self, FileAttachment};
use crate::text::markdown;

/// Prefixes of the names of files.
const BEFORE: &str = "before";
const AFTER: &str = "after";

/// Screenshots of a page at one width, in one set of colours, as PNGs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPictures {
    pub width: PageWidth,
    pub colors: PageColors,
    /// The page as it was; absent if the page is new.
    pub before: Option<Bytes>,
    pub after: Bytes,
}

impl SlackGateway {
    /// Shows a page before and after a change. A picture that is not there: a sentence that says why.
    ///
    /// # Errors
    /// A sentence for the role.
    pub async fn show_compared(
        &self,
        caller: &ProvenCaller,
        (key, page): (&str, &str),
        views: &[ViewPictures],
    ) -> Result<Option<String>, ApiError> {
        let inner = &self.inner;
        let thread = inner.thread(&caller.key()).unwrap_or_else(|| Arc::clone(&caller.thread));
        require_conversation(&thread)?;
        let name = |place: usize, when: &str| {
            let index = (place, "png");
            uploads::file_name(when, &thread, caller.role_name(), key, index)
        };
        let mut files = Vec::new();
        for (index, view) in views.iter().enumerate() {
            let shows = describe_view(view.width, view.colors);
            let both = [(BEFORE, view.before.as_ref()), (AFTER, Some(&view.after))];
            for (when, picture) in both {
                let Some(picture) = picture else { continue };
                let words = Some(format!("{when}: {page} ({shows})"));
                let name = name(index, when);
                files.push(FileAttachment { name, content: picture.to_vec(), words });
            }
        }
        let words = write_words(&caller.role.spec.display.name, page, views);
        let _turn = inner.posting.lock(&caller.key()).await;
        let sent = attach_together(inner, &caller.repo, &thread, (files, &words)).await;
        let ids = match sent {
            Ok(ids) => ids,
            Err(AccessError::Call(CallError::Refused { code, .. })) => {
                tracing::warn!(code, content = "comparison", "slack_upload_refused");
                return Ok(Some(format!(
                    "the conversation does not show the pictures: Slack takes no files of this app ({code}). A person has \
                     to give it the scope `files:write`"
                )));
            }
            Err(error) => return Err(inner.failed(error, &caller.repo).await),
        };
        let mut ids = ids.into_iter();
        let mut shown = Vec::new();
        for view in views {
            let before = if view.before.is_some() { ids.next() } else { None };
            let Some(after) = ids.next() else {
                return Err(ApiError::new(
                    ErrorCode::Unavailable,
                    "the pictures are not shown yet: try again",
                ));
            };
            shown.push(ViewShown { width: view.width, colors: view.colors, before, after });
        }
        let author = MessageAuthor::Role { role: caller.role_name().to_owned() };
        inner.compared(caller, &thread, (key, page), (author, shown)).await;
        Ok(None)
    }
}

/// True if a message holds pictures that [`SlackGateway::show_compared`] has posted: a history has them already, as
/// what they are. Messages with files carry no mark of ours, so the names of the files tell.
pub(crate) fn is_comparison(message: &ThreadMessage) -> bool {
    let is_bot = matches!(message.author, MessageAuthor::Bot { .. });
    let is_own = |picture: &SharedPicture| {
        let rest = picture.name.strip_prefix(BEFORE).or_else(|| picture.name.strip_prefix(AFTER));
        let rest = rest.and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".png"));
        rest.and_then(|rest| rest.split_once('-')).is_some_and(|(digest, place)| {
            digest.len() == 10
                && digest.bytes().all(|b| b.is_ascii_hexdigit())
                && place.bytes().all(|b| b.is_ascii_digit())
        })
    };
    is_bot && !message.pictures.is_empty() && message.pictures.iter().all(is_own)
}

/// The line above the pictures, in Slack's markup.
fn write_words(role: &str, page: &str, views: &[ViewPictures]) -> String {
    let seen: Vec<String> =
        views.iter().map(|view| describe_view(view.width, view.colors)).collect();
    let seen = seen.join("; ");
    let text = if views.iter().any(|view| view.before.is_some()) {
        format!("{role}: `{page}` before and after the change ({seen})")
    } else {
        format!("{role}: the new page `{page}` ({seen})")
    };
    markdown::render_inline(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_what_they_see() {
        let view = |before: Option<&'static [u8]>| ViewPictures {
            width: PageWidth::Phone,
            colors: PageColors::Light,
            before: before.map(Bytes::from_static),
            after: Bytes::new(),
        };
        let pair = [view(Some(b"x"))];
        assert_eq!(
            write_words("Coder", "/cart?a=1&b=2", &pair),
            "Coder: `/cart?a=1&amp;b=2` before and after the change (phone, light)"
        );
        let new = write_words("Coder", "/", &[view(None)]);
        assert_eq!(new, "Coder: the new page `/` (phone, light)");
    }

    #[test]
    fn our_own_pictures_are_known_by_their_names_and_people_may_use_any() {
        let message = |author: MessageAuthor, names: &[&str]| ThreadMessage {
            ts: "1.000000".parse().unwrap(),
            author,
            text: String::new(),
            addressed: false,
            pictures: names
                .iter()
                .map(|name| SharedPicture { id: "F1".into(), name: (*name).to_owned() })
                .collect(),
        };
        let (bot, user) =
            (MessageAuthor::Bot { id: "B1".into() }, MessageAuthor::User { id: "U1".into() });
        let pair = ["before-0123456789-1.png", "after-0123456789-1.png"];
        assert!(is_comparison(&message(bot.clone(), &pair)));
        assert!(!is_comparison(&message(user, &pair)));
        for others in [&[][..], &["before-0123456789-1.png", "a.png"], &["before-x-1.png"]] {
            assert!(!is_comparison(&message(bot.clone(), others)), "{others:?}");
        }
    }
}
