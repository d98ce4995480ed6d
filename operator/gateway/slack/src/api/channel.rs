//! A Repo's channel, as what comes from Slack is looked up in it.

use codebutler_crds::{SlackTs, names};
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::thread_key::ThreadKey;

/// A Repo as the router sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepoChannel {
    pub namespace: String,
    pub repo: String,
    /// Of the Repo: one that is made anew is read anew.
    pub uid: String,
    pub id: String,
    /// Its Git repository: host, owner and name, in small letters.
    pub git: String,
    /// Name of the Secret with the app's tokens: with another one, everything is read anew.
    pub secret: String,
    pub team: RepoTeam,
    /// The app's own user id in the workspace.
    pub bot_user: Option<String>,
    /// Bots that may write here, by bot id or user id.
    pub bots: Vec<String>,
    /// Whether the app that hears this is the Repo's; false: another app's Repo in the same channel.
    pub is_own: bool,
    /// Whether Slack keeps it from hearing and answering.
    pub deaf: bool,
}

impl RepoChannel {
    /// The Thread of a conversation.
    pub(crate) fn thread(&self, root: &SlackTs) -> ThreadKey {
        ThreadKey { namespace: self.namespace.clone(), name: names::thread_name(&self.repo, root) }
    }

    /// Who takes what is for nobody.
    pub(crate) fn first(&self) -> Option<&str> {
        self.team.first()
    }
}
