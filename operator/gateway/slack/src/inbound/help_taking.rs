//! Answers who asks what can be asked.

use codebutler_crds::SlackTs;
use codebutler_gateway_core::thread_key::ThreadKey;
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::Inner;
use crate::api::channel::RepoChannel;
use crate::inbound::access;
use crate::inbound::effects::RouteEffect;
use crate::inbound::help::{self, HelpWish};
use crate::inbound::person_message::PersonMessage;
use crate::inbound::take_error::TakeError;

impl Inner {
    /// Answers in a conversation that has nothing else yet, and alone to who asks in one that has.
    pub(crate) async fn take_help(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        requested_by: &str,
        (said, wish): (&PersonMessage, HelpWish),
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let Some(repo) = self.context.repo(&channel.namespace, &channel.repo) else {
            return Ok(Vec::new());
        };
        let ours = Some(requested_by) == channel.bot_user.as_deref();
        let thread = self.find(channel, root, ours).await?;
        // A mention alone is a nudge where somebody works.
        if !access::permits_user(&repo.spec.access.users, &said.user)
            || (thread.is_some() && wish == HelpWish::Mention)
        {
            return self.message(channel, root, requested_by, said).await;
        }
        let is_new = self.directly.first_time((channel.id.clone(), said.ts.clone()));
        if !is_new || !help::is_fresh(&said.ts, Timestamp::now()) {
            return Ok(Vec::new());
        }
        let text =
            help::help_text(&repo, help::place_name(&channel.git), self.context.pages.as_deref());
        let effect = if let Some(thread) = thread {
            let (thread, user) = (ThreadKey::from(&*thread), said.user.clone());
            RouteEffect::Whisper { thread, user, text }
        } else {
            let repo = (channel.namespace.clone(), repo.name_any());
            RouteEffect::Help { repo, root: root.clone(), text }
        };
        Ok(vec![effect])
    }
}
