//! The offer to learn a repository: one message in the channel with a button, and the conversation that a press
//! begins. The Thread's name comes from the message, so that many presses begin one.

use codebutler_crds::{Repo, Thread, ThreadSpec, names};
use codebutler_gateway_core::api_error::ApiError;
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use sha2::{Digest as _, Sha256};

use crate::api::channel::RepoChannel;
use crate::inbound::effects::RouteEffect;
use crate::inbound::take_error::TakeError;
use crate::people::access;
use crate::questions::{ButtonPress, ButtonStyle, LEARN, QuestionButton};
use crate::{Inner, SlackGateway};

/// First words of the conversation: those of the shipped skill.
const PROMPT: &str = "Learn this repository";
const STARTED: &str = "The team learns this repository: its conversation is in this channel.";
/// Characters of the Repo's name in that of the Thread.
const REPO: usize = 32;
const OFFER: &str = "This repository has no `.codebutler/` yet: the roles know of it what its code says. They can \
                     learn it once, and propose what a newcomer would have to ask. You decide about each part of it.";

static BUTTON: [QuestionButton; 1] =
    [QuestionButton::fixed(LEARN, PROMPT, ButtonStyle::Primary, ":white_check_mark: Started by")];

impl SlackGateway {
    /// Posts the offer in a Repo's channel; the same key once. `before`: since when it may be there already, if so.
    ///
    /// # Errors
    /// A sentence for the log.
    pub async fn offer_learning(
        &self,
        repo: &Repo,
        key: &str,
        before: Option<Timestamp>,
    ) -> Result<(), ApiError> {
        self.announce_with(repo, key, (OFFER, &BUTTON), before).await
    }
}

impl Inner {
    /// Begins the conversation that the offer is about.
    pub(crate) async fn begin_learning(
        &self,
        channel: &RepoChannel,
        press: &ButtonPress,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let Some(repo) = self.context.repo(&channel.namespace, &channel.repo) else {
            return Ok(Vec::new());
        };
        let text = if access::permits_user(&repo.spec.access.users, &press.user) {
            self.threads.begin(learning_thread(&repo, press)).await?;
            STARTED
        } else {
            access::NOT_PERMITTED
        };
        let (root, user) = (press.message.clone(), press.user.clone());
        let repo = (channel.namespace.clone(), channel.repo.clone());
        Ok(vec![RouteEffect::Tell { repo, root, user, text }])
    }
}

fn learning_thread(repo: &Repo, press: &ButtonPress) -> Thread {
    let whole = repo.name_any();
    let hash = hex::encode(&Sha256::digest(format!("{whole}\n{}", press.message))[..4]);
    let shown: String = whole.chars().take(REPO).collect();
    let spec = ThreadSpec {
        repo: whole,
        prompt: Some(PROMPT.to_owned()),
        requested_by: Some(press.user.clone()),
        ..ThreadSpec::default()
    };
    let mut thread = Thread::new(&format!("{}-learn-{hash}", shown.trim_end_matches('-')), spec);
    thread.metadata.namespace = repo.namespace();
    thread.labels_mut().insert(names::LABEL_REPO.to_owned(), repo.name_any());
    thread.metadata.owner_references = repo.owner_ref(&()).map(|owner| vec![owner]);
    thread
}
