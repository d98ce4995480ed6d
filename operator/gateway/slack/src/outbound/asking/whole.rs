//! Full text of what people are asked about, where a message can't show it: in a file before the question.

use codebutler_crds::{Repo, Thread};
use codebutler_gateway_core::api_error::ApiError;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::Inner;
use crate::api::account::AccessError;
use crate::api::web::CallError;
use crate::outbound::post;
use crate::outbound::uploads::FileAttachment;

/// Digest of all that is recorded with a yes.
pub(super) fn digest_of(recorded: &(impl Serialize + ?Sized)) -> String {
    let text = serde_json::to_vec(recorded).unwrap_or_default();
    hex::encode(&Sha256::digest(text)[..16])
}

/// Puts a file before a question; returns its name, or `None` where Slack takes no files. The caller holds the
/// thread's turn to post.
pub(super) async fn attach_whole(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    (name, content): (String, String),
) -> Result<Option<String>, ApiError> {
    let file = FileAttachment::new(name.clone(), content.into_bytes());
    match post::attach_files(inner, repo, thread, vec![file]).await {
        Ok(_) => Ok(Some(name)),
        Err(AccessError::Call(CallError::Refused { code, .. })) => {
            tracing::warn!(code, content = "question", "slack_upload_refused");
            Ok(None)
        }
        Err(error) => Err(inner.failed(error, repo).await),
    }
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::{RequestPart, TrainCar};

    use super::*;

    #[test]
    fn other_words_are_another_question() {
        let part = |request: &str| RequestPart {
            title: "Prices".to_owned(),
            request: request.to_owned(),
            repo: None,
            after: Vec::new(),
            linked: false,
        };
        assert_eq!(digest_of(&[part("Do it.")]), digest_of(&[part("Do it.")]));
        assert_ne!(digest_of(&[part("Do it.")]), digest_of(&[part("Do more.")]));
        let car = |head: &str| [TrainCar::ready("t", 1, head)];
        assert_ne!(digest_of(&car("a")), digest_of(&car("b")));
    }
}
