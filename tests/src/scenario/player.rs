//! Plays a scenario in a world: does what the people do, waits with deadlines, gathers evidence.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;

use super::evidence::{
    CommandRun, ObservedWorld, ProviderAccount, RemoteState, ScenarioEvidence, SeenMessage,
};
use super::watch::find_changes;
use super::{
    ExpectationOutcome, ExpectedCommand, PlayableScenario, ScenarioAction, SpectatorEvent,
    evaluate_scenario,
};

/// Interval at which the world is observed.
const POLL: Duration = Duration::from_millis(100);
/// Longest time for the world to be observed once.
const OBSERVED: Duration = Duration::from_mins(1);

/// An error of the world: it did not do or show something.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WorldError(pub String);

impl WorldError {
    /// Describes any error together with its causes.
    pub fn new(error: impl std::error::Error) -> Self {
        let mut told = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            told = format!("{told}: {cause}");
            source = cause.source();
        }
        Self(told)
    }
}

/// The world that a scenario is played in. Users are meant by their names in the scenario.
#[async_trait]
pub trait ScenarioWorld: Send + Sync {
    /// Posts as a user: into a conversation (the `ts` of its first message), or as the first
    /// message of a new one. Gives the message's `ts`.
    async fn post(
        &self,
        user: &str,
        conversation: Option<&str>,
        text: &str,
    ) -> Result<String, WorldError>;

    /// Clicks a button, by its text, on a message.
    async fn click(
        &self,
        user: &str,
        message: &SeenMessage,
        button: &str,
    ) -> Result<(), WorldError>;

    /// Reacts to a message, as a user.
    async fn react(&self, user: &str, message: &SeenMessage, emoji: &str)
    -> Result<(), WorldError>;

    /// Applies a Kubernetes object, as with `kubectl apply`.
    async fn apply(&self, object: &Value) -> Result<(), WorldError>;

    /// Observes what people and operators see now.
    async fn observe(&self) -> Result<ObservedWorld, WorldError>;

    /// Reads the remote's current state.
    async fn remote(&self) -> Result<RemoteState, WorldError>;

    /// Reads the model calls and the bill so far.
    async fn account(&self) -> Result<ProviderAccount, WorldError>;

    /// Runs a command in a fresh clone of the base branch.
    async fn run(&self, command: &ExpectedCommand) -> Result<CommandRun, WorldError>;
}

/// The result of playing a scenario.
#[derive(Clone, Debug)]
pub struct ScenarioReport {
    /// Every expectation, and every step that could not be done.
    pub outcomes: Vec<ExpectationOutcome>,
    /// Observations that the expectations were judged by.
    pub evidence: ScenarioEvidence,
}

impl ScenarioReport {
    /// True if every expectation held and every step could be done.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcomes.iter().all(|o| o.ok)
    }
}

/// Plays a scenario and judges it. `on_event` hears what happens, as it happens.
///
/// # Errors
/// When the world can't be looked at any more. Whatever else goes wrong is in the report.
pub async fn play_scenario(
    scenario: &PlayableScenario,
    world: &dyn ScenarioWorld,
    on_event: &mut (dyn FnMut(SpectatorEvent) + Send),
) -> Result<ScenarioReport, WorldError> {
    let mut player = Player {
        scenario,
        world,
        on_event,
        seen: ObservedWorld::default(),
        conversations: BTreeMap::new(),
        latest: None,
    };
    let mut stuck = None;
    for (n, action) in scenario.conversation.iter().enumerate() {
        let (number, of) = (n + 1, scenario.conversation.len());
        (player.on_event)(SpectatorEvent::Step { number, of, what: action.to_string() });
        if let Err(error) = player.act(action).await {
            stuck =
                Some(ExpectationOutcome::new(format!("step {number}: {action}"), Some(error.0)));
            break;
        }
    }
    let evidence = player.settle(stuck.is_some()).await?;
    let mut outcomes: Vec<ExpectationOutcome> = stuck.into_iter().collect();
    outcomes.extend(evaluate_scenario(scenario, &evidence));
    Ok(ScenarioReport { outcomes, evidence })
}

/// Observes a world whose cluster may have stopped to answer.
///
/// # Errors
/// When it can't be observed, or not within a minute.
pub async fn observe_in_time(world: &dyn ScenarioWorld) -> Result<ObservedWorld, WorldError> {
    within(OBSERVED, world.observe()).await
}

async fn within<T>(
    limit: Duration,
    observing: impl Future<Output = Result<T, WorldError>>,
) -> Result<T, WorldError> {
    tokio::time::timeout(limit, observing).await.unwrap_or_else(|_| {
        let seconds = limit.as_secs();
        Err(WorldError(format!("cluster and Git host did not answer within {seconds} s")))
    })
}

/// The first message of the conversation that was opened for a Thread.
fn opening_message(now: &ObservedWorld, object: &Value) -> Option<String> {
    let name = &object["metadata"]["name"];
    let thread = now.threads.iter().find(|thread| thread["metadata"]["name"] == *name)?;
    thread["status"]["slack"]["ts"].as_str().map(str::to_owned)
}

struct Player<'a> {
    scenario: &'a PlayableScenario,
    world: &'a dyn ScenarioWorld,
    on_event: &'a mut (dyn FnMut(SpectatorEvent) + Send),
    /// The world at the last look.
    seen: ObservedWorld,
    /// The conversations' first messages (`ts`) by label.
    conversations: BTreeMap<String, String>,
    /// The conversation that was begun last.
    latest: Option<String>,
}

impl Player<'_> {
    async fn look(&mut self) -> Result<(), WorldError> {
        let now = observe_in_time(self.world).await?;
        for event in find_changes(&self.seen, &now) {
            (self.on_event)(event);
        }
        self.seen = now;
        Ok(())
    }

    async fn act(&mut self, action: &ScenarioAction) -> Result<(), WorldError> {
        match action {
            ScenarioAction::Says { user, text, label } => {
                let ts = self.world.post(user, None, text).await?;
                self.conversations.extend(label.clone().map(|label| (label, ts.clone())));
                self.latest = Some(ts);
            }
            ScenarioAction::Replies { user, text, conversation } => {
                let named = conversation.as_ref().and_then(|label| self.conversations.get(label));
                let conversation = named.or(self.latest.as_ref());
                self.world.post(user, conversation.map(String::as_str), text).await?;
            }
            ScenarioAction::Clicks { user, button, on, within } => {
                let open = |m: &SeenMessage| on.fits(m) && m.buttons.contains(button);
                let message = self.newest(open, *within).await?;
                self.world.click(user, &message, button).await?;
            }
            ScenarioAction::Reacts { user, emoji, on, within } => {
                let message = self.newest(|m| on.fits(m), *within).await?;
                self.world.react(user, &message, emoji).await?;
            }
            ScenarioAction::Applies { object, label, within } => {
                self.world.apply(object).await?;
                if object["kind"] == "Thread" && object["spec"]["prompt"].is_string() {
                    let ts = self.until(*within, |now| opening_message(now, object)).await?;
                    self.conversations.extend(label.clone().map(|label| (label, ts.clone())));
                    self.latest = Some(ts);
                }
            }
            ScenarioAction::Wait { condition, within } => {
                self.until(*within, |now| condition.holds(now).then_some(())).await?;
            }
        }
        self.look().await
    }

    async fn newest(
        &mut self,
        fits: impl Fn(&SeenMessage) -> bool,
        within: Option<u64>,
    ) -> Result<SeenMessage, WorldError> {
        let found = |now: &ObservedWorld| now.messages.iter().rev().find(|m| fits(m)).cloned();
        self.until(within, found).await
    }

    /// Looks until something is found, the script is left, or the time is up.
    async fn until<T>(
        &mut self,
        within: Option<u64>,
        find: impl Fn(&ObservedWorld) -> Option<T>,
    ) -> Result<T, WorldError> {
        let seconds = within.unwrap_or(self.scenario.settings.within);
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            self.look().await?;
            if let Some(found) = find(&self.seen) {
                return Ok(found);
            }
            if let Some(failure) = self.seen.script_failures.first() {
                return Err(WorldError(failure.clone()));
            }
            if Instant::now() >= deadline {
                return Err(WorldError(format!("not within {seconds} s")));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Gathers the evidence once all expectations hold, or at the deadline.
    async fn settle(&mut self, stuck: bool) -> Result<ScenarioEvidence, WorldError> {
        let seconds = if stuck { 0 } else { self.scenario.settings.settle };
        let deadline = Instant::now() + Duration::from_secs(seconds);
        // Commands take long: they are run once, when all else is settled.
        let mut rest = self.scenario.clone();
        rest.expect.commands.clear();
        let mut evidence = loop {
            self.look().await?;
            let evidence = ScenarioEvidence {
                observed: self.seen.clone(),
                remote: self.world.remote().await?,
                account: self.world.account().await?,
                ran: Vec::new(),
            };
            if evaluate_scenario(&rest, &evidence).iter().all(|o| o.ok)
                || Instant::now() >= deadline
            {
                break evidence;
            }
            tokio::time::sleep(POLL).await;
        };
        // A conversation that got stuck has nothing to run them on.
        for command in self.scenario.expect.commands.iter().filter(|_| !stuck) {
            let ran = self.world.run(command).await;
            evidence.ran.push(ran.unwrap_or_else(|e| CommandRun { exit: None, output: e.0 }));
        }
        Ok(evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_world_that_never_answers_is_an_error() {
        let limit = Duration::from_millis(10);
        let error = within(limit, std::future::pending::<Result<(), _>>()).await.unwrap_err();
        assert!(error.0.contains("did not answer"), "{error}");
        assert_eq!(within(limit, async { Ok(1) }).await.unwrap(), 1);
    }
}
