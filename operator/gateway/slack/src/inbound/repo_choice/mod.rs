//! Several Repos in one channel: which of them something is about. A conversation that has a Thread is
//! about its Repo. A message that begins one is about the Repo that it names, or the only one that its
//! author may steer. Anything else is kept as a mark ([`record`]) before it is acknowledged, and one
//! replica reads the conversation and asks ([`ask`]).
//!
//! Pure: [`naming`], [`decide_repo`] and what changes in [`record`].

pub(crate) mod ask;
mod naming;
mod record;

use codebutler_crds::SlackTs;
use codebutler_crds::unclear::ChosenRepo;
use codebutler_gateway_core::thread_key::ThreadKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(crate) use self::naming::fold_address;
use self::naming::{NamedRepos, channel_label, named_repos};
use self::record::NotedChoice;
use crate::Inner;
use crate::api::channel::RepoChannel;
use crate::api::clock;
use crate::api::cursor::begin_cursor;
use crate::api::stored_message::StoredMessage;
use crate::inbound::answering::is_new;
use crate::inbound::effects::RouteEffect;
use crate::inbound::emoji::EmojiSign;
use crate::inbound::event::{ButtonClick, EnvelopePayload, ReactionAdded};
use crate::inbound::route;
use crate::inbound::take_error::TakeError;
use crate::people::access;

/// Prefix of the `action_id`s of the question's buttons; the Repo's UID follows.
const BUTTON: &str = "repository:";
/// Told to people whose answer comes after the question is closed.
const OVER: &str = "This is no longer open: it was answered, or nobody answered in time. Write again to begin \
     anew, and name the repository.";
const GONE: &str =
    "That repository is no longer looked after here: press another button, or write another name.";
const FULL: &str = "Too many messages wait for somebody to say which repository they are about: write this again \
     with the repository's name in it.";
/// Told to people who mean a Repo that Slack keeps from answering.
const DEAF: &str = "Nobody can answer for that repository at the moment. This is read as soon as somebody can. Whoever \
     runs CodeButler sees why: `kubectl codebutler doctor`.";
/// The same text for a press of a button, which nobody reads back.
const DEAF_CHOICE: &str = "Nobody can answer for that repository at the moment: press the button again later. Whoever runs \
     CodeButler sees why: `kubectl codebutler doctor`.";

/// Recipient of a message in a channel that several Repos share.
pub(crate) enum MessageOwner {
    /// There is no choice: it is routed as if nothing were said here.
    Plain,
    /// It is for this Repo alone.
    One(Box<RepoChannel>),
    /// It is stored, or for nobody.
    Done(Vec<RouteEffect>),
}

/// Decides which Repo a conversation is about, by the words of its messages, oldest first, and by who began it:
/// the first message that names one alone says so.
pub(crate) fn decide_repo<'a>(
    words: &[&str],
    may: impl Fn(&RepoChannel) -> bool,
    sharing: &'a [RepoChannel],
) -> Option<&'a RepoChannel> {
    let mut said = words.iter().map(|text| named_repos(text, sharing));
    if let Some(NamedRepos::One(channel)) = said.find(|named| matches!(named, NamedRepos::One(_))) {
        return Some(channel);
    }
    // People who named several are asked, whatever they may.
    if words.iter().any(|text| named_repos(text, sharing) == NamedRepos::Several) {
        return None;
    }
    let mut permitted = sharing.iter().filter(|channel| may(channel));
    permitted.next().filter(|_| permitted.next().is_none())
}

impl Inner {
    /// The Repos of a channel, the oldest first, with whichever app.
    pub(crate) fn sharing(&self, channel: &str) -> Vec<RepoChannel> {
        self.channels.places_in(channel)
    }

    /// Finds the owner of something that arrived, where several Repos share its channel.
    pub(crate) async fn whose(
        &self,
        payload: &EnvelopePayload,
        channels: &[RepoChannel],
    ) -> Result<MessageOwner, TakeError> {
        let id = match payload {
            EnvelopePayload::Message(incoming) => &incoming.channel,
            EnvelopePayload::Click(click) => &click.channel,
            EnvelopePayload::Why(given) => &given.about.channel,
            EnvelopePayload::Changed(changed) => &changed.channel,
            EnvelopePayload::Reaction(reaction) => &reaction.channel,
            EnvelopePayload::Stopped(stopped) => &stopped.channel,
            EnvelopePayload::Linked(_)
            | EnvelopePayload::Assisted(_)
            | EnvelopePayload::Ignored
            | EnvelopePayload::Unreadable
            | EnvelopePayload::Unknown => {
                return Ok(MessageOwner::Plain);
            }
        };
        let sharing: Vec<RepoChannel> = channels.iter().filter(|c| c.id == *id).cloned().collect();
        if let EnvelopePayload::Click(click) = payload
            && let Some(uid) = click.action_id.strip_prefix(BUTTON)
        {
            return self.chosen(click, uid, &sharing).await;
        }
        if sharing.len() < 2 {
            return Ok(MessageOwner::Plain);
        }
        let root = match payload {
            EnvelopePayload::Message(incoming) => {
                return self.whose_message(&incoming.message, &sharing).await;
            }
            EnvelopePayload::Click(click) => Some(click.root.clone()),
            EnvelopePayload::Why(given) => Some(given.about.root.clone()),
            EnvelopePayload::Stopped(stopped) => Some(stopped.thread_ts.clone()),
            EnvelopePayload::Changed(changed) => {
                let root = changed.before.root();
                if self.about(root, &sharing).is_none() {
                    return self.reworded(root, &sharing).await;
                }
                Some(root.clone())
            }
            EnvelopePayload::Reaction(reaction) => self.reacted_in(reaction, &sharing).await?,
            EnvelopePayload::Linked(_)
            | EnvelopePayload::Assisted(_)
            | EnvelopePayload::Ignored
            | EnvelopePayload::Unreadable
            | EnvelopePayload::Unknown => None,
        };
        let about = root.and_then(|root| self.about(&root, &sharing));
        Ok(about.map_or(MessageOwner::Plain, |channel| MessageOwner::One(Box::new(channel))))
    }

    /// Finds the owner of a message, whether it was pushed or read back. What is unclear is kept.
    pub(crate) async fn whose_message(
        &self,
        message: &StoredMessage,
        sharing: &[RepoChannel],
    ) -> Result<MessageOwner, TakeError> {
        let speaker = sharing.iter().find_map(|channel| route::find_speaker(message, channel));
        let (Some(user), true) = (speaker, sharing.len() > 1) else {
            return Ok(MessageOwner::Plain);
        };
        let root = message.root();
        if let Some(channel) = self.about(root, sharing) {
            return Ok(MessageOwner::One(Box::new(channel)));
        }
        if sharing.iter().any(|channel| self.has_ended(channel, root, &message.ts)) {
            return Ok(MessageOwner::Done(Vec::new()));
        }
        // Earlier messages of a conversation are known to Slack alone.
        let text = message.text.as_deref().unwrap_or_default();
        let begins = *root == message.ts;
        let may = |channel: &RepoChannel| self.may_steer(message, channel);
        if let Some(channel) = decide_repo(&[text], may, sharing).filter(|_| begins) {
            if channel.deaf {
                let (place, from) =
                    ((&*channel.namespace, &*channel.repo), message.ts.minus_secs(1));
                begin_cursor(&self.context.client, place, &from).await?;
                return Ok(MessageOwner::Done(self.tell(root, user, DEAF, sharing)));
            }
            return Ok(MessageOwner::One(Box::new(channel.clone())));
        }
        let Some(keeper) = self.keeper(root, sharing) else { return Ok(MessageOwner::Plain) };
        let known = self.kept(root, keeper);
        if known.is_some_and(|known| known.heard >= message.ts && known.message <= message.ts) {
            return Ok(MessageOwner::Done(Vec::new()));
        }
        let now = Time(jiff::Timestamp::now());
        let note = |list: &mut Vec<_>| record::note_message(list, root, (&message.ts, user), &now);
        let noted = self.keep((&keeper.namespace, &keeper.repo), note).await?;
        Ok(MessageOwner::Done(match noted {
            Some(NotedChoice::Full) => self.tell(root, user, FULL, sharing),
            _ => Vec::new(),
        }))
    }

    /// Finds the Repo whose Thread a conversation has.
    pub(crate) fn about(&self, root: &SlackTs, sharing: &[RepoChannel]) -> Option<RepoChannel> {
        let id = &sharing.first()?.id;
        let opened = self.opened.find(id, root).and_then(|key| self.thread(&key));
        let by_thread = opened.and_then(|thread| {
            let ThreadKey { namespace, .. } = ThreadKey::from(&*thread);
            let is = |c: &&RepoChannel| c.namespace == namespace && c.repo == thread.spec.repo;
            sharing.iter().find(is)
        });
        let has = |channel: &&RepoChannel| {
            let thread = self.thread(&channel.thread(root));
            let place = thread.as_ref().and_then(|thread| thread.conversation());
            place.is_some_and(|place| place.channel == *id && place.ts == *root)
        };
        by_thread.or_else(|| sharing.iter().find(has)).cloned()
    }

    /// True if the author of a message may give work to a Repo.
    fn may_steer(&self, message: &StoredMessage, channel: &RepoChannel) -> bool {
        let Some(user) = route::find_speaker(message, channel) else { return false };
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        let users = repo.as_ref().map(|repo| &repo.spec.access.users);
        message.person().is_none() || users.is_some_and(|users| access::permits_user(users, user))
    }

    /// Takes in a press of a button of the question.
    async fn chosen(
        &self,
        click: &ButtonClick,
        uid: &str,
        sharing: &[RepoChannel],
    ) -> Result<MessageOwner, TakeError> {
        let ButtonClick { root, message, user, .. } = click;
        let told = |text| Ok(MessageOwner::Done(self.tell(root, user, text, sharing)));
        let ended = sharing.iter().any(|channel| self.has_ended(channel, root, message));
        if ended || self.about(root, sharing).is_some() {
            return told(OVER);
        }
        let Some(channel) = sharing.iter().find(|channel| channel.uid == uid) else {
            return told(GONE);
        };
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        if repo.is_none_or(|repo| !access::permits_user(&repo.spec.access.users, user)) {
            return told(access::NOT_PERMITTED);
        }
        if channel.deaf {
            return told(DEAF_CHOICE);
        }
        let Some(keeper) = self.keeper(root, sharing) else { return told(GONE) };
        let (uid, by, now) = (uid.to_owned(), user.clone(), Time(jiff::Timestamp::now()));
        let chosen = ChosenRepo { uid, by };
        let choose = |list: &mut Vec<_>| record::choose_repo(list, root, message, &chosen, &now);
        match self.keep((&keeper.namespace, &keeper.repo), choose).await? {
            Some(NotedChoice::Full) => told(FULL),
            _ => Ok(MessageOwner::Done(Vec::new())),
        }
    }

    /// Takes in an edit of a message in a conversation: it may name a Repo now.
    async fn reworded(
        &self,
        root: &SlackTs,
        sharing: &[RepoChannel],
    ) -> Result<MessageOwner, TakeError> {
        let keeper = self.keeper(root, sharing).filter(|keeper| self.kept(root, keeper).is_some());
        let Some(keeper) = keeper else { return Ok(MessageOwner::Done(Vec::new())) };
        let at = clock::slack_now();
        let look = |list: &mut Vec<codebutler_crds::unclear::UnclearConversation>| {
            for known in list.iter_mut().filter(|known| known.root == *root) {
                known.heard = at.clone();
            }
        };
        self.keep((&keeper.namespace, &keeper.repo), look).await?;
        Ok(MessageOwner::Done(Vec::new()))
    }

    /// Finds the conversation in which somebody reacted, where that can matter.
    async fn reacted_in(
        &self,
        reaction: &ReactionAdded,
        sharing: &[RepoChannel],
    ) -> Result<Option<SlackTs>, TakeError> {
        let (Some(first), Some(sign)) = (sharing.first(), EmojiSign::by_name(&reaction.name))
        else {
            return Ok(None);
        };
        let message = &reaction.message;
        if let Some(root) = self.asked_in(first, message) {
            return Ok(Some(root));
        }
        if self.about(message, sharing).is_some() {
            return Ok(Some(message.clone()));
        }
        if matches!(sign, EmojiSign::Thumb(_)) && !is_new(message) {
            return Ok(None);
        }
        let Some(hears) = sharing.iter().find(|channel| !channel.deaf) else { return Ok(None) };
        self.root_of(hears, message).await
    }

    /// Sends a line to one person, from whichever Repo of the channel can speak.
    fn tell(
        &self,
        root: &SlackTs,
        user: &str,
        text: &'static str,
        sharing: &[RepoChannel],
    ) -> Vec<RouteEffect> {
        let speaks = self.keeper(root, sharing).filter(|channel| !channel.deaf);
        let Some(RepoChannel { namespace, repo, .. }) = speaks else { return Vec::new() };
        let repo = (namespace.clone(), repo.clone());
        vec![RouteEffect::Tell { repo, root: root.clone(), user: user.to_owned(), text }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_that_name_one_repo_decide_and_else_who_may() {
        let api = RepoChannel {
            repo: "api".to_owned(),
            git: "h/a/api".to_owned(),
            ..RepoChannel::test()
        };
        let sharing = [RepoChannel::test(), api];
        let all = |_: &RepoChannel| true;
        let only_api = |channel: &RepoChannel| channel.repo == "api";
        let decided = |words: &[&str], may: &dyn Fn(&RepoChannel) -> bool| {
            decide_repo(words, may, &sharing).map(|channel| channel.repo.as_str())
        };
        assert_eq!(decided(&["fix it"], &all), None);
        assert_eq!(decided(&["fix it", "in api", "no, shop"], &all), Some("api"));
        assert_eq!(decided(&["shop or api?", "shop"], &all), Some("shop"));
        assert_eq!(decided(&["fix it"], &only_api), Some("api"));
        assert_eq!(
            decided(&["fix it in shop"], &only_api),
            Some("shop"),
            "and there it is declined"
        );
        assert_eq!(decided(&["in shop and api"], &only_api), None);
        assert_eq!(decided(&["fix it"], &|_: &RepoChannel| false), None);
    }
}
