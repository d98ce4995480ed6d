//! A Repo's channel, in the form by which input from Slack is looked up.

use codebutler_crds::{SlackTs, names};
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::thread_key::ThreadKey;

/// A Repo in the view of the router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepoChannel {
    pub namespace: String,
    pub repo: String,
    /// UID of the Repo: one that is made anew is read anew.
    pub uid: String,
    pub id: String,
    /// Address of its Git repository: host, owner and name, in small letters.
    pub git: String,
    /// Name of the Secret with the app's tokens: with another one, everything is read anew.
    pub secret: String,
    pub team: RepoTeam,
    /// The app's own user id in the workspace.
    pub bot_user: Option<String>,
    /// Bots that may write here, by bot id or user id.
    pub bots: Vec<String>,
    /// True if the app that hears this is the Repo's; false if it is another app's Repo in the same channel.
    pub is_own: bool,
    /// True if Slack keeps it from hearing and answering.
    pub deaf: bool,
}

impl RepoChannel {
    /// The channel C01 of the Repo `shop`, which has a pm and a coder.
    #[cfg(test)]
    pub(crate) fn test() -> Self {
        let roles = ["pm", "coder"].map(str::to_owned).to_vec();
        Self {
            namespace: "team".to_owned(),
            repo: "shop".to_owned(),
            uid: "u".to_owned(),
            id: "C01".to_owned(),
            git: "github.com/acme/shop".to_owned(),
            secret: "slack".to_owned(),
            team: RepoTeam { roles, ..RepoTeam::default() },
            bot_user: Some("U0BOT".to_owned()),
            bots: Vec::new(),
            is_own: true,
            deaf: false,
        }
    }

    /// Key of the Thread of a conversation.
    pub(crate) fn thread(&self, root: &SlackTs) -> ThreadKey {
        ThreadKey { namespace: self.namespace.clone(), name: names::thread_name(&self.repo, root) }
    }

    /// The role that takes messages that are for nobody.
    pub(crate) fn first(&self) -> Option<&str> {
        self.team.first()
    }
}
