//! Channels and apps as this process knows them: which Repos name a channel, and who else is there.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_runtime::recent::RecentKeys;
use kube::ResourceExt as _;
use parking_lot::{Mutex, RwLock};

use crate::api::channel::RepoChannel;
use crate::api::web::{CallError, SlackToken};

/// Time for which it is told that somebody else uses the same app.
const SHARED: Duration = Duration::from_hours(1);

/// Time for which Slack is not asked again if a channel without the app is archived.
const ASKED: Duration = Duration::from_secs(30);

/// Channels and apps beyond what Kubernetes says of them.
#[derive(Default)]
pub(crate) struct KnownChannels {
    /// The Repos that name a channel, the oldest first.
    places: RwLock<Vec<RepoChannel>>,
    /// Channels of no Repo that were logged.
    strangers: RecentKeys<String>,
    /// Channels that are shared with another organisation.
    outside: RecentKeys<String>,
    /// Apps, by their user id, that somebody else uses too, and when that was last seen.
    shared: Mutex<HashMap<String, Instant>>,
    /// Apps, by their app token, for which no socket opens, and why.
    silent: Mutex<HashMap<String, CallError>>,
    /// Channels that the app is not in: when Slack was asked, and true if they are archived.
    archived: Mutex<HashMap<String, (Instant, bool)>>,
}

impl KnownChannels {
    /// Takes note of the Repos that name a channel, the oldest first.
    pub(crate) fn keep_places(&self, places: Vec<RepoChannel>) {
        *self.places.write() = places;
    }

    /// The Repos of a channel, the oldest first.
    pub(crate) fn places_in(&self, channel: &str) -> Vec<RepoChannel> {
        self.places.read().iter().filter(|place| place.id == channel).cloned().collect()
    }

    /// True if messages of the Repo's channel, where any are heard yet, are heard with this Repo in mind.
    pub(crate) fn is_listed(&self, repo: &Repo) -> bool {
        let (places, uid) = (self.places.read(), repo.uid().unwrap_or_default());
        repo.channel().is_none() || places.is_empty() || places.iter().any(|place| place.uid == uid)
    }

    /// True the first time for a channel of no Repo.
    pub(crate) fn is_new_stranger(&self, channel: &str) -> bool {
        self.strangers.first_time(channel.to_owned())
    }

    /// Takes note that another organisation is in a channel; true the first time.
    pub(crate) fn note_outside(&self, channel: &str) -> bool {
        self.outside.first_time(channel.to_owned())
    }

    /// True if another organisation is in a channel.
    pub(crate) fn is_outside(&self, channel: &str) -> bool {
        self.outside.contains(&channel.to_owned())
    }

    /// Takes note that somebody else uses an app too.
    pub(crate) fn note_shared_app(&self, user: &str) {
        self.shared.lock().insert(user.to_owned(), Instant::now());
    }

    /// Takes note that an app hears nothing, or that it hears again.
    pub(crate) fn note_socket(&self, app: &SlackToken, trouble: Option<CallError>) {
        let mut silent = self.silent.lock();
        match trouble {
            Some(error) => silent.insert(app.expose().to_owned(), error),
            None => silent.remove(app.expose()),
        };
    }

    /// Reason for which an app hears nothing, if it does not.
    pub(crate) fn socket_trouble(&self, app: &SlackToken) -> Option<CallError> {
        self.silent.lock().get(app.expose()).cloned()
    }

    /// Takes note of what Slack says of a channel that the app is not in.
    pub(crate) fn note_archived(&self, channel: &str, is_archived: bool) {
        self.archived.lock().insert(channel.to_owned(), (Instant::now(), is_archived));
    }

    /// Slack's answer about such a channel, if it is from a moment ago.
    pub(crate) fn was_archived(&self, channel: &str) -> Option<bool> {
        let archived = self.archived.lock();
        let (asked, is_archived) = archived.get(channel)?;
        (asked.elapsed() < ASKED).then_some(*is_archived)
    }

    /// True if somebody else uses an app too, as far as was seen lately.
    pub(crate) fn is_shared_app(&self, user: &str) -> bool {
        self.shared.lock().get(user).is_some_and(|seen| seen.elapsed() < SHARED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_has_the_repos_that_name_it() {
        let known = KnownChannels::default();
        assert!(known.places_in("C01").is_empty());
        let elsewhere = RepoChannel { id: "C02".to_owned(), ..RepoChannel::test() };
        known.keep_places(vec![RepoChannel::test(), elsewhere]);
        assert_eq!(known.places_in("C01"), [RepoChannel::test()]);
        assert!(known.places_in("C03").is_empty());
    }

    #[test]
    fn who_else_is_there_is_noted_by_channel_and_app() {
        let known = KnownChannels::default();
        assert!(known.note_outside("C01") && !known.note_outside("C01"));
        assert!(known.is_outside("C01") && !known.is_outside("C02"));
        known.note_shared_app("U0BOT");
        assert!(known.is_shared_app("U0BOT") && !known.is_shared_app("U0OTHER"));
        assert!(known.is_new_stranger("C01") && !known.is_new_stranger("C01"));
        let (app, other) = (SlackToken::new("xapp-1"), SlackToken::new("xapp-2"));
        let trouble = CallError::Limited { method: "apps.connections.open" };
        known.note_socket(&app, Some(trouble.clone()));
        assert_eq!(
            (known.socket_trouble(&app), known.socket_trouble(&other)),
            (Some(trouble), None)
        );
        known.note_socket(&app, None);
        assert_eq!(known.socket_trouble(&app), None);
        assert_eq!(known.was_archived("C01"), None);
        known.note_archived("C01", true);
        assert_eq!((known.was_archived("C01"), known.was_archived("C02")), (Some(true), None));
    }
}
