//! A scenario's world on a running [`RunningStack`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use codebutler_crds::Thread;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::sync::Mutex;

use codebutler_testbed::scenario::{
    CommandRun, ExpectedCommand, ObservedWorld, PlayableScenario, ProviderAccount, RemoteState,
    ScenarioWorld, SeenMessage, SeenReaction, WorldError, collect_account, remote_state,
    run_in_checkout,
};
use codebutler_testbed::slack::{MessageView, SenderKind};
use codebutler_testbed::stack::RunningStack;

/// The testbed as the scenario player sees it.
pub(crate) struct StackWorld<'a> {
    stack: &'a RunningStack,
    branch: String,
    /// Role short names by the display name that Slack shows.
    roles: BTreeMap<String, String>,
    /// The repository when it was read last.
    last_read: Mutex<Option<ReadRemote>>,
}

/// State of the repository, and the branches with their commits of which it was read.
struct ReadRemote {
    branches: BTreeMap<String, String>,
    state: RemoteState,
}

impl<'a> StackWorld<'a> {
    /// `roles` maps display names to short names.
    pub(crate) fn new(
        stack: &'a RunningStack,
        scenario: &PlayableScenario,
        roles: BTreeMap<String, String>,
    ) -> Self {
        Self::on(stack, &scenario.repository.branch, roles)
    }

    /// Makes a world of a stack without a scenario.
    pub(crate) fn on(
        stack: &'a RunningStack,
        branch: &str,
        roles: BTreeMap<String, String>,
    ) -> Self {
        Self { stack, branch: branch.to_owned(), roles, last_read: Mutex::default() }
    }

    fn user(&self, name: &str) -> Result<&str, WorldError> {
        let missing = || WorldError(format!("there is no user `{name}`"));
        self.stack.users.get(name).map(String::as_str).ok_or_else(missing)
    }

    fn user_name(&self, id: &str) -> Option<String> {
        self.stack.users.iter().find(|(_, own)| *own == id).map(|(name, _)| name.clone())
    }

    fn from(&self, message: &MessageView) -> String {
        let sender = &message.sender;
        match sender.kind {
            SenderKind::User => self.user_name(&sender.id).unwrap_or_else(|| sender.name.clone()),
            _ => self.roles.get(&sender.name).cloned().unwrap_or_else(|| "codebutler".to_owned()),
        }
    }

    fn message(&self, view: &MessageView) -> SeenMessage {
        let by = |id: &String| self.user_name(id).unwrap_or_else(|| "codebutler".to_owned());
        let reactions = view.reactions.iter().flat_map(|reaction| {
            let emoji = reaction.name.clone();
            reaction.users.iter().map(move |u| SeenReaction { emoji: emoji.clone(), by: by(u) })
        });
        SeenMessage {
            conversation: view.thread_ts.clone().unwrap_or_else(|| view.ts.clone()),
            ts: view.ts.clone(),
            from: self.from(view),
            text: view.shown.clone(),
            buttons: view.buttons.iter().map(|b| b.text.clone()).collect(),
            reactions: reactions.collect(),
        }
    }

    fn messages(&self) -> Vec<SeenMessage> {
        let slack = &self.stack.slack;
        let channel = &self.stack.channel;
        let roots = slack.messages(channel, None);
        let views = roots.iter().flat_map(|root| slack.messages(channel, Some(&root.ts)));
        let mut all: Vec<SeenMessage> = views.map(|view| self.message(&view)).collect();
        all.sort_by(|a, b| a.ts.cmp(&b.ts));
        all.dedup_by(|a, b| a.ts == b.ts);
        all
    }
}

#[async_trait]
impl ScenarioWorld for StackWorld<'_> {
    async fn post(
        &self,
        user: &str,
        conversation: Option<&str>,
        text: &str,
    ) -> Result<String, WorldError> {
        let user = self.user(user)?;
        let slack = &self.stack.slack;
        slack.post_as(user, &self.stack.channel, conversation, text).map_err(WorldError::new)
    }

    async fn click(
        &self,
        user: &str,
        message: &SeenMessage,
        button: &str,
    ) -> Result<(), WorldError> {
        let (slack, channel) = (&self.stack.slack, &self.stack.channel);
        let view = slack.message(channel, &message.ts);
        let buttons = view.map(|v| v.buttons).unwrap_or_default();
        let found = buttons.iter().find(|b| b.text == button);
        let action = found.ok_or_else(|| WorldError(format!("there is no button `{button}`")))?;
        let click = slack.click(self.user(user)?, channel, &message.ts, &action.action_id);
        click.map(drop).map_err(WorldError::new)
    }

    async fn react(
        &self,
        user: &str,
        message: &SeenMessage,
        emoji: &str,
    ) -> Result<(), WorldError> {
        let (slack, channel) = (&self.stack.slack, &self.stack.channel);
        let reacted = slack.react_as(self.user(user)?, channel, &message.ts, emoji);
        reacted.map(drop).map_err(WorldError::new)
    }

    async fn apply(&self, object: &Value) -> Result<(), WorldError> {
        let mut object = object.clone();
        if object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = self.stack.place.team.clone().into();
        }
        let applied = self.stack.cluster.apply_yaml_as("kubectl", &object.to_string()).await;
        applied.map_err(WorldError::new)
    }

    async fn observe(&self) -> Result<ObservedWorld, WorldError> {
        let client = self.stack.cluster.client();
        let made = ListParams::default().labels(codebutler_crds::names::LABEL_THREAD);
        let mut threads: Vec<Thread> =
            self.stack.threads().list(&ListParams::default()).await.map_err(WorldError::new)?.items;
        threads.sort_by_key(|thread| thread.conversation().map(|slack| slack.ts.clone()));
        let pods = Api::<Pod>::namespaced(client.clone(), &self.stack.place.team);
        let claims = Api::<PersistentVolumeClaim>::namespaced(client, &self.stack.place.team);
        // Names are all that is shown of them.
        let pods = pods.list_metadata(&made).await.map_err(WorldError::new)?;
        let claims = claims.list_metadata(&made).await.map_err(WorldError::new)?;
        Ok(ObservedWorld {
            messages: self.messages(),
            threads: threads.iter().filter_map(|t| serde_json::to_value(t).ok()).collect(),
            pods: pods.iter().map(ResourceExt::name_any).collect(),
            volumes: claims.iter().map(ResourceExt::name_any).collect(),
            pull_requests: self.stack.remote.pulls().await.map_err(WorldError::new)?,
            script_failures: self.stack.models.failures(),
        })
    }

    /// It is asked ten times a second, and each file takes a process: it is read again when a branch has moved.
    async fn remote(&self) -> Result<RemoteState, WorldError> {
        let branches = self.stack.remote.branches().await.map_err(WorldError::new)?;
        let mut last = self.last_read.lock().await;
        if let Some(read) = last.as_ref().filter(|read| read.branches == branches) {
            return Ok(read.state.clone());
        }
        let state =
            remote_state(&self.stack.remote, &self.branch, &self.stack.first_commit).await?;
        *last = Some(ReadRemote { branches, state: state.clone() });
        Ok(state)
    }

    async fn account(&self) -> Result<ProviderAccount, WorldError> {
        Ok(collect_account(&self.stack.models))
    }

    async fn run(&self, command: &ExpectedCommand) -> Result<CommandRun, WorldError> {
        run_in_checkout(&self.stack.remote, &self.branch, command).await
    }
}
