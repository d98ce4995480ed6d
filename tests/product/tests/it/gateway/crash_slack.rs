//! The gateway killed while it answers people in Slack: what they asked is answered once, and what they said is on
//! record.

use std::time::Duration;

use codebutler_crds::SlackTs;
use codebutler_crds::thread::AnswerFeedback;
use codebutler_testbed::models::ModelScript;
use codebutler_testbed::slack::{ModalView, RateLimits, SlackOptions};
use serde_json::json;

use super::crash::Holder;
use super::{World, eventually};

const PATIENCE: Duration = Duration::from_mins(1);
/// More than an answer passes.
const MOST: u64 = 12;

impl World {
    /// A gateway that hears Slack, or is dead.
    async fn hears(&self, die_at: Option<u64>) -> Holder {
        let mut holder = Holder::start(self, die_at).await;
        tokio::select! {
            heard = self.slack.wait_connected(1, PATIENCE) => heard.unwrap(),
            _ = holder.child.wait() => {}
        }
        holder
    }

    /// True if Slack does not deliver this message again: a gateway has it, or none came in time.
    fn is_over(&self, message: &str) -> bool {
        let all = self.slack.deliveries().into_iter();
        all.filter(|event| event.key == message).all(|event| event.acked_at.is_some() || event.lost)
    }

    /// Until the channel was read back that far.
    async fn read_back(&self, to: &str) {
        let to: SlackTs = to.parse().unwrap();
        eventually("the channel is read back", || async {
            self.repo().await.status.is_some_and(|s| s.slack.cursor.is_some_and(|at| at >= to))
        })
        .await;
    }

    /// Messages of a conversation that say this.
    fn lines_with(&self, root: &str, words: &str) -> Vec<String> {
        let all = self.slack.messages(&self.channel, Some(root)).into_iter();
        all.filter(|message| message.text.contains(words)).map(|message| message.ts).collect()
    }

    /// The modal that asks Ana why an answer did not help.
    fn modal_about(&self, answer: &str) -> Option<String> {
        let about = |modal: &ModalView| {
            modal.view["private_metadata"].as_str().is_some_and(|about| about.contains(answer))
        };
        self.slack.modals(&self.ana).into_iter().find(about).map(|modal| modal.id)
    }

    async fn feedback(&self) -> Vec<AnswerFeedback> {
        self.thread().await.status.unwrap().feedback
    }
}

async fn world() -> World {
    // A gateway opens one connection a minute from the tenth on by Slack's limits: here many are started.
    let workspace = SlackOptions { rate_limits: RateLimits::Off, ..SlackOptions::default() };
    let script = ModelScript::of("coder", vec![]);
    let world = World::play_in(workspace, script, &json!({}), &json!({})).await;
    // From here on it is known what was said.
    let holder = world.hears(None).await;
    world.read_back("0.000001").await;
    assert!(holder.stop().await, "{}", world.log());
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_help_is_answered_once_wherever_the_gateway_dies() {
    let world = world().await;
    let mut kills = 0;
    for step in 1.. {
        assert!(step < MOST, "it never lives: {}", world.log());
        let mut holder = world.hears(Some(step)).await;
        let asked = world.slack.post_as(&world.ana, &world.channel, None, "help").unwrap();
        let answers = || world.lines_with(&asked, "such as:").len();
        tokio::select! {
            () = eventually("an answer", || async { answers() > 0 }) => {}
            _ = holder.child.wait() => {}
        }
        let lived = holder.stop().await;
        kills += u32::from(!lived);

        let next = world.hears(None).await;
        eventually("Slack to deliver it no more", || async { world.is_over(&asked) }).await;
        eventually("an answer", || async { answers() > 0 }).await;
        world.read_back(&asked).await;
        // It ends when all that follows is done.
        assert!(next.stop().await, "{}", world.log());
        assert_eq!(answers(), 1, "dead at {step}: {}", world.log());
        if lived {
            break;
        }
    }
    assert!(kills >= 1, "{}", world.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn why_an_answer_did_not_help_is_on_record_wherever_the_gateway_dies() {
    let world = world().await;
    let mut kills = 0;
    for step in 1.. {
        assert!(step < MOST, "it never lives: {}", world.log());
        let (key, words) = (format!("answer-{step}"), format!("no currency, {step}"));
        let answer = json!({"key": key, "text": "It costs 20.", "answers": true, "last": true});
        let (status, posted) = world.post("pm", "/v1/messages", &answer).await;
        assert_eq!(status, 200, "{posted}");
        let answer = posted["ts"].as_str().unwrap();
        let holder = world.hears(None).await;
        world.slack.rate(&world.ana, &world.channel, answer, false).unwrap();
        let modal = || world.modal_about(answer);
        eventually("a modal", || async { modal().is_some() }).await;
        let shown = modal().unwrap();
        assert!(holder.stop().await, "{}", world.log());

        let mut holder = world.hears(Some(step)).await;
        world.slack.submit_modal(&world.ana, &shown, &words).unwrap();
        tokio::select! {
            () = eventually("it closes", || async { modal().is_none() }) => {}
            _ = holder.child.wait() => {}
        }
        let lived = holder.stop().await;
        kills += u32::from(!lived);
        let next = world.hears(None).await;
        if world.lines_with(&world.root, &words).is_empty() {
            // Slack told her that it was not sent, and left it open.
            world.slack.submit_modal(&world.ana, &shown, &words).unwrap();
        }
        let why = || async {
            let said = world.feedback().await;
            let one = said.into_iter().find(|one| one.message.as_str() == answer)?;
            one.why.map(|why| why.to_string())
        };
        eventually("it is on record", || async { why().await.is_some() }).await;
        assert!(next.stop().await, "{}", world.log());
        let stands = world.lines_with(&world.root, &words);
        assert_eq!(stands, [why().await.unwrap()], "dead at {step}: {}", world.log());
        if lived {
            break;
        }
    }
    assert!(kills >= 1, "{}", world.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_for_help_where_somebody_works_is_answered_wherever_the_gateway_dies() {
    let world = world().await;
    let mut kills = 0;
    for step in 1.. {
        assert!(step < MOST, "it never lives: {}", world.log());
        let answers = || world.lines_with(&world.root, "such as:").len();
        let before = answers();
        let mut holder = world.hears(Some(step)).await;
        let root = Some(world.root.as_str());
        let asked = world.slack.post_as(&world.ana, &world.channel, root, "help").unwrap();
        let is_over = || async {
            let status = world.thread().await.status.unwrap();
            status.helping.is_empty() && status.helped.iter().any(|ts| ts.as_str() == asked)
        };
        tokio::select! {
            () = eventually("an answer", || async { answers() > before && is_over().await }) => {}
            _ = holder.child.wait() => {}
        }
        let lived = holder.stop().await;
        kills += u32::from(!lived);
        let next = world.hears(None).await;
        eventually("an answer", || async { answers() > before && is_over().await }).await;
        assert!(next.stop().await, "{}", world.log());
        // Slack can't be asked whether it has shown the first one.
        let count = answers() - before;
        assert!(count == 1 || (count == 2 && !lived), "{count}, dead at {step}: {}", world.log());
        if lived {
            break;
        }
    }
    assert!(kills >= 1, "{}", world.log());
}
