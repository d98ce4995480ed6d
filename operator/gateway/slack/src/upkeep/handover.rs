//! Acts on handovers: what [`dispatch`](codebutler_gateway_core::dispatch) decides about runs that have ended
//! is kept in the Thread, told in the conversation in one line, and wakes whom it names. Found by looking at
//! all Threads again and again: a restart in between forgets nothing and tells nothing twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{HandOver, HandOverReason, RoleState, ThreadState};
use codebutler_crds::{Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::attended::AttendedThreads;
use codebutler_gateway_core::dispatch::heard::{HeardConversation, HeardLine, HeardSpeaker};
use codebutler_gateway_core::dispatch::{self, DispatchFacts, DispatchStep, RepoTeam, rounds};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, drive_threads};
use codebutler_gateway_core::threads;
use codebutler_runtime::queue::FollowUp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::api::account::SlackAccount;
use crate::api::channel::RepoChannel;
use crate::api::deferral::LaterError;
use crate::api::reading::WantedReading;
use crate::api::stored_message::StoredMessage;
use crate::inbound::route;
use crate::outbound::post;
use crate::people::access;
use crate::people::mentions;
use crate::text::address;
use crate::{Inner, own_metadata};

/// Interval between two looks.
const EVERY: Duration = Duration::from_millis(300);
/// Backoff after a failure, and its limit.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Kinds of messages by which a role speaks to the conversation; its other messages show what it does.
const SAID: [&str; 3] = ["message", "plan", "merge"];

/// True if something is to be decided or told. Pure.
fn is_due(thread: &Thread) -> bool {
    let active = thread.spec.state == ThreadState::Active && !thread.is_going();
    let open = |status: &ThreadStatus| {
        !status.handovers.is_empty() || status.roles.values().any(|role| role.ended)
    };
    active && thread.conversation().is_some() && thread.status.as_ref().is_some_and(open)
}

/// Looks after these Threads until told to stop. One replica does: the one that their agents speak to.
pub(crate) async fn run_handovers(
    inner: Arc<Inner>,
    attended: &AttendedThreads,
    stop: CancellationToken,
) {
    let queue = ThreadQueue::new(attended, is_due, (AGAIN, LONGEST));
    let look = |key: ThreadKey, _: Arc<Thread>| {
        let inner = Arc::clone(&inner);
        // Looked at again where the cache does not show yet what was written.
        async move { look_after(&inner, &key).await.map(|()| FollowUp::requeue(EVERY)) }
    };
    drive_threads(queue, ("handover", &stop), look, |_| {}).await;
}

async fn look_after(inner: &Inner, key: &ThreadKey) -> Result<(), LaterError> {
    let Some((thread, repo)) = inner.known(key) else { return Ok(()) };
    if !is_due(&thread) {
        return Ok(());
    }
    tell_handover(inner, &repo, &thread).await?;
    decide_handovers(inner, &repo, key).await?;
    // Read again, for what was decided just now.
    let Some(thread) = inner.thread(key) else { return Ok(()) };
    tell_handover(inner, &repo, &thread).await
}

/// Decides about the runs that have ended.
async fn decide_handovers(inner: &Inner, repo: &Repo, key: &ThreadKey) -> Result<(), LaterError> {
    let Some(thread) = inner.thread(key) else { return Ok(()) };
    let status = thread.status.clone().unwrap_or_default();
    if !status.roles.values().any(|role| role.ended) {
        return Ok(());
    }
    // Slack is asked only where the answer counts.
    let rests = !dispatch::goes_on(&status, None);
    let heard = if rests { Some(hear_conversation(inner, repo, &thread).await?) } else { None };
    let team = inner.team(repo);
    let take = |status: &mut ThreadStatus| take_stock(status, &team, heard.as_ref());
    inner.threads.update(key, take).await?;
    Ok(())
}

/// Takes the runs off the list that have ended, and keeps what was decided about them. Pure; on the state
/// that it is written on. `heard`: the conversation, if it was read.
fn take_stock(status: &mut ThreadStatus, team: &RepoTeam, heard: Option<&HeardConversation>) {
    let mut ended: Vec<_> = status.roles.iter().filter(|(_, role)| role.ended).collect();
    ended.sort_by(|a, b| a.1.said.cmp(&b.1.said));
    let ended: Vec<String> = ended.into_iter().map(|(name, _)| name.clone()).collect();
    for role in ended {
        let goes_on = dispatch::goes_on(status, None);
        let step = match heard {
            // The role that goes on will end, and is looked at then.
            _ if goes_on => DispatchStep::Rest,
            Some(heard) => {
                dispatch::decide_dispatch(&DispatchFacts { team, status, role: &role, heard })
            }
            // The conversation came to rest meanwhile: it is read next time.
            None => return,
        };
        if let DispatchStep::Pass(decided) = step {
            threads::add_handover(status, decided);
        }
        let is_told = heard.is_some_and(|heard| heard.is_told_idle(&role));
        if let Some(own) = status.roles.get_mut(&role) {
            own.ended = false;
            if is_told && !goes_on && own.state == Some(RoleState::Idle) {
                // People were asked while it was still running.
                own.state = Some(RoleState::Waiting);
            }
        }
    }
}

/// Reads what was said in the conversation.
async fn hear_conversation(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
) -> Result<HeardConversation, LaterError> {
    let Some(slack) = thread.conversation() else { return Ok(HeardConversation::default()) };
    let place = (&ThreadKey::from(thread), slack);
    let account = inner.account(repo).await?;
    let status = thread.status.clone().unwrap_or_default();
    let wanted = WantedReading { own: true, ..WantedReading::of(&status, None, None) };
    let reading = match inner.read_conversation(&account, place, &wanted).await {
        Ok(reading) => Some(reading),
        // The conversation was deleted.
        Err(error) if error.code() == Some("thread_not_found") => None,
        Err(error) => return Err(error.into()),
    };
    let said = reading.as_ref().map_or(&[][..], |reading| reading.after(None));
    let reader = HandoverInput {
        team: inner.team(repo),
        channel: inner.channel(repo, &account),
        account: &account,
        users: &repo.spec.access.users,
        thread,
    };
    Ok(HeardConversation::new(said.iter().filter_map(|stored| reader.line(stored)).collect()))
}

struct HandoverInput<'a> {
    team: RepoTeam,
    channel: RepoChannel,
    account: &'a SlackAccount,
    users: &'a [String],
    thread: &'a Thread,
}

impl HandoverInput<'_> {
    fn line(&self, stored: &StoredMessage) -> Option<HeardLine> {
        let text = stored.text.clone().unwrap_or_default();
        let line = |by, to| Some(HeardLine { ts: stored.ts.clone(), by, to, text: text.clone() });
        if !self.account.wrote(stored) {
            let user = route::find_speaker(stored, &self.channel)?;
            let may = stored.person().is_none() || access::permits_user(self.users, user);
            return may.then(|| line(HeardSpeaker::Person, Vec::new())).flatten();
        }
        let payload = own_metadata(stored.metadata.as_ref())?;
        if !post::speaks_of(payload, self.thread) {
            return None;
        }
        let value = |name: &str| payload[name].as_str().unwrap_or_default();
        let (role, key) = (value("role"), value("key"));
        if role.is_empty() {
            let (to, id) = match key.strip_prefix("to:").and_then(|mail| mail.split_once(':')) {
                Some((role, id)) => (vec![role.to_owned()], id),
                None => (Vec::new(), key),
            };
            return line(HeardSpeaker::Own { id: id.to_owned() }, to);
        }
        if !SAID.contains(&value("kind")) {
            return None;
        }
        let run = key.split('.').next().unwrap_or_default().to_owned();
        let to = post::read_addressed(payload)
            .unwrap_or_else(|| address::by_role(&text, &self.team.roles, role, false));
        line(HeardSpeaker::Role { role: role.to_owned(), run }, to)
    }
}

/// Tells what was decided, and wakes whom it names.
async fn tell_handover(inner: &Inner, repo: &Repo, thread: &Thread) -> Result<(), LaterError> {
    let key = ThreadKey::from(thread);
    let decided = thread.status.as_ref().map(|status| status.handovers.clone()).unwrap_or_default();
    for one in &decided {
        let links = message_links(inner, repo, thread, &one.views).await;
        let names = RoleNames::of(inner, repo);
        let people = if one.role.is_none() { mentions::people_of(thread) } else { Vec::new() };
        let called = mentions::mention_each(&people);
        let text = format!("{} {called}", handover_sentence(one, &names, &links));
        let ts = post::post_line(inner, &key, &notice_key(one), text.trim_end(), &people).await;
        let ts = ts.map_err(|error| explain_unposted(&error))?;
        let now = Time(jiff::Timestamp::now());
        let done = |status: &mut ThreadStatus| mark_told(status, one, &ts, &now);
        inner.threads.update(&key, done).await?;
        tracing::info!(thread = key.name, decided = one.id, "handover_posted");
    }
    Ok(())
}

/// Key of the line: as mail for the role, unless it knows already.
fn notice_key(decided: &HandOver) -> String {
    match &decided.role {
        Some(role) if decided.why != HandOverReason::Approved => post::key_for(role, &decided.id),
        _ => decided.id.clone(),
    }
}

fn explain_unposted(error: &ApiError) -> LaterError {
    tracing::warn!(%error, notice = "handover", "notice_post_failed");
    LaterError::Slow
}

/// Removes a handover that was told, and applies what follows. Pure; applied again, nothing changes.
fn mark_told(status: &mut ThreadStatus, decided: &HandOver, ts: &SlackTs, now: &Time) {
    if !status.handovers.iter().any(|known| known.id == decided.id) {
        return;
    }
    status.handovers.retain(|known| known.id != decided.id);
    match (&decided.role, &decided.from) {
        (Some(_), _) if decided.why == HandOverReason::Approved => {}
        (Some(role), from) => {
            threads::raise_inbox(status, std::slice::from_ref(role), ts, now);
            if decided.why == HandOverReason::AlsoAddressed {
                status.queued.retain(|next| next.role != *role);
            } else if let Some(from) = from {
                rounds::count_round(status, from, role, ts, false);
            }
        }
        // The role has asked people by now: what they answer is for it.
        (None, Some(from)) => {
            let own = status.roles.entry(from.clone()).or_default();
            if matches!(own.state, None | Some(RoleState::Idle)) {
                own.state = Some(RoleState::Waiting);
            }
            threads::raise_said(status, from, ts, None);
        }
        (None, None) => {}
    }
}

struct RoleNames(HashMap<String, String>);

impl RoleNames {
    fn of(inner: &Inner, repo: &Repo) -> Self {
        let roles = inner.context.roles_of(repo);
        Self(roles.iter().map(|r| (r.spec.role.clone(), r.spec.display.name.clone())).collect())
    }

    fn get<'a>(&'a self, role: Option<&'a String>) -> &'a str {
        let Some(role) = role else { return "nobody" };
        self.0.get(role).unwrap_or(role)
    }
}

/// The line for the conversation. Pure.
fn handover_sentence(decided: &HandOver, names: &RoleNames, links: &[String]) -> String {
    let (to, from) = (names.get(decided.role.as_ref()), names.get(decided.from.as_ref()));
    let because = match decided.why {
        HandOverReason::Approved => "the plan is approved".to_owned(),
        HandOverReason::PlanWaits => "the approved plan is not built yet".to_owned(),
        HandOverReason::NotReviewed => "the pull request waits for a review".to_owned(),
        HandOverReason::ReviewPassed => "the review found nothing that has to change".to_owned(),
        HandOverReason::ReviewFound => "the review found something".to_owned(),
        HandOverReason::Answered => format!("{from} has answered"),
        HandOverReason::AlsoAddressed => format!("{from} addressed it too"),
        HandOverReason::Rounds if decided.role.is_none() => {
            return match &decided.with {
                Some(_) => format!(
                    "→ Nobody goes on: {from} and {} have nothing new to say to each other. Write here what they should do.",
                    names.get(decided.with.as_ref())
                ),
                None => format!(
                    "→ Nobody goes on: {from} was asked to decide and did not. Write here how to continue."
                ),
            };
        }
        HandOverReason::Rounds => {
            let other = names.get(decided.with.as_ref());
            let views = match links {
                [] => String::new(),
                links => format!(" ({})", links.join(", ")),
            };
            return format!(
                "→ {to} decides: {from} and {other} went back and forth three times without an end{views}. Decide who \
                 is right, and hand over to the role that continues."
            );
        }
        HandOverReason::NotClosed if decided.role.is_some() => {
            "the work is done, and the merge question is open".to_owned()
        }
        HandOverReason::NotClosed => {
            return format!(
                "→ Nobody goes on: the pull request waits, and no role asked whether to merge it. Write here, and {from} continues."
            );
        }
        HandOverReason::NoPullRequest => {
            return format!(
                "→ Nobody goes on: the plan is approved, and {from} stopped without a pull request. Write here, and {from} continues."
            );
        }
    };
    format!("→ {to} goes on: {because}")
}

#[derive(Deserialize)]
struct MessagePlace {
    permalink: String,
}

/// Permalinks of messages; those that Slack does not give are left out.
async fn message_links(
    inner: &Inner,
    repo: &Repo,
    thread: &Thread,
    views: &[SlackTs],
) -> Vec<String> {
    let mut found = Vec::new();
    let Some(slack) = thread.conversation() else { return found };
    for ts in views {
        let Ok(account) = inner.account(repo).await else { break };
        let params = [("channel", slack.channel.as_str()), ("message_ts", ts.as_str())];
        let place = inner.web.get::<MessagePlace>(&account.bot, "chat.getPermalink", &params).await;
        found.extend(place.ok().map(|place| place.permalink));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ts(n: u32) -> SlackTs {
        format!("{n}.000000").parse().unwrap()
    }

    fn now() -> Time {
        Time(jiff::Timestamp::UNIX_EPOCH)
    }

    fn decided(role: Option<&str>, why: HandOverReason) -> HandOver {
        let (role, from) = (role.map(str::to_owned), Some("coder".to_owned()));
        HandOver { id: "on:x".into(), role, from, with: None, why, views: Vec::new() }
    }

    #[test]
    fn what_was_told_wakes_whom_it_names_once() {
        let one = decided(Some("reviewer"), HandOverReason::NotReviewed);
        let mut status = ThreadStatus { handovers: vec![one.clone()], ..ThreadStatus::default() };
        mark_told(&mut status, &one, &ts(5), &now());
        assert!(status.wants("reviewer") && status.handovers.is_empty());
        assert_eq!(status.rounds.as_ref().map(|rounds| rounds.times), Some(1));
        let after = status.clone();
        mark_told(&mut status, &one, &ts(6), &now());
        assert_eq!(status, after);
        // A role that has the decision already is told nothing anew.
        let one = decided(Some("coder"), HandOverReason::Approved);
        let mut status = ThreadStatus { handovers: vec![one.clone()], ..ThreadStatus::default() };
        mark_told(&mut status, &one, &ts(5), &now());
        assert!(!status.wants("coder") && status.handovers.is_empty());
        assert_eq!(notice_key(&one), "on:x");
    }

    #[test]
    fn what_people_are_told_makes_the_role_wait_for_them() {
        let one = decided(None, HandOverReason::NoPullRequest);
        let mut status = ThreadStatus { handovers: vec![one.clone()], ..ThreadStatus::default() };
        mark_told(&mut status, &one, &ts(5), &now());
        let coder = &status.roles["coder"];
        assert_eq!((coder.state, &coder.said), (Some(RoleState::Waiting), &Some(ts(5))));
    }

    #[test]
    fn ended_runs_are_taken_off_once_somebody_goes_on_or_it_is_decided() {
        let team = RepoTeam {
            roles: ["pm", "coder"].map(str::to_owned).to_vec(),
            implements: Some("coder".into()),
            ..RepoTeam::default()
        };
        let status = |coder: serde_json::Value| -> ThreadStatus {
            serde_json::from_value(json!({
                "plan": {"ts": ts(3), "hash": "h", "role": "pm", "approvedBy": "U1"},
                "roles": {"pm": {"state": "Idle", "ended": true}, "coder": coder},
            }))
            .unwrap()
        };
        let mut busy = status(json!({"state": "Running"}));
        take_stock(&mut busy, &team, None);
        assert!(!busy.roles["pm"].ended && busy.handovers.is_empty());
        // It came to rest after the decision not to read the conversation.
        let mut rests = status(json!({"state": "Idle"}));
        take_stock(&mut rests, &team, None);
        assert!(rests.roles["pm"].ended);
        take_stock(&mut rests, &team, Some(&HeardConversation::default()));
        assert!(!rests.roles["pm"].ended);
        assert_eq!(rests.handovers[0].role.as_deref(), Some("coder"));
        let after = rests.clone();
        take_stock(&mut rests, &team, Some(&HeardConversation::default()));
        assert_eq!(rests, after);
    }

    #[test]
    fn who_said_nothing_new_waits_for_people_who_were_told_before_its_run_ended() {
        let team = RepoTeam {
            roles: ["pm", "coder"].map(str::to_owned).to_vec(),
            implements: Some("coder".into()),
            ..RepoTeam::default()
        };
        let by = |role: &str| HeardSpeaker::Role { role: role.into(), run: "1".into() };
        let line = |n, by, to: &[&str]| HeardLine {
            ts: ts(n),
            by,
            to: to.iter().map(|role| (*role).to_owned()).collect(),
            text: "ok".into(),
        };
        let notice = rounds::idle_notice("pm", "coder", &ts(4));
        let heard = HeardConversation::new(vec![
            line(3, by("coder"), &["pm"]),
            line(4, by("pm"), &[]),
            line(5, HeardSpeaker::Own { id: notice.id.clone() }, &[]),
        ]);
        let status = json!({"roles": {"pm": {"state": "Running"}, "coder": {"state": "Idle"}}});
        let mut status: ThreadStatus = serde_json::from_value(status).unwrap();
        status.handovers = vec![notice.clone()];
        mark_told(&mut status, &notice, &ts(5), &now());
        let own = status.roles.get_mut("pm").unwrap();
        (own.state, own.ended) = (Some(RoleState::Idle), true);
        take_stock(&mut status, &team, Some(&heard));
        assert!(status.handovers.is_empty(), "{:?}", status.handovers);
        assert_eq!(status.roles["pm"].state, Some(RoleState::Waiting));
    }

    #[test]
    fn the_conversation_is_told_in_one_line() {
        let names = RoleNames(HashMap::from([("coder".to_owned(), "Coder".to_owned())]));
        let line =
            |role, why| handover_sentence(&decided(role, why), &names, &["https://x/1".to_owned()]);
        assert_eq!(
            line(Some("coder"), HandOverReason::Approved),
            "→ Coder goes on: the plan is approved"
        );
        assert!(line(Some("lead"), HandOverReason::Rounds).contains("(https://x/1)"));
        assert!(line(None, HandOverReason::NoPullRequest).contains("Coder stopped without"));
        assert!(!line(None, HandOverReason::NotClosed).contains('\n'));
    }
}
