//! Carrying out what was decided about parts, one step at a time; each finds what is done already.

use codebutler_crds::thread::{RequestPart, RequestSplit, SplitEnd};
use codebutler_crds::{Repo, Thread, ThreadSpec, ThreadStatus, names};
use codebutler_gateway_core::github::{GitHub, GitHubPull};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::step;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};

use super::decide::{PartStep, SplitFacts};
use super::{PartsError, freshest_thread, messages, part_name};
use crate::receipt;
use crate::roadmap::child::child_name;
use crate::work::WorkServices;

pub(super) async fn carry_out(
    gateway: &WorkServices,
    parent: &Thread,
    facts: &SplitFacts<'_>,
    step: PartStep,
) -> Result<(), PartsError> {
    let key = ThreadKey::from(parent);
    let split = facts.split;
    match step {
        PartStep::Start(number) => {
            let part = split.part(number).zip(split.approved_by.as_deref());
            let Some((part, by)) = part else { return Ok(()) };
            let Some(repo) =
                repo_for(gateway, (&key, split), facts.repo_of(part), number, by).await?
            else {
                return Ok(());
            };
            let name = part_name(split, parent, number);
            let thread = thread_of(parent, &repo, (&name, by), prompt_of(facts, number, part));
            step::point("before part");
            gateway.threads.ensure(thread).await?;
            step::point("after part");
            tracing::info!(thread = key.name, part = number, "part_started");
            update_split(gateway, &key, |_| {}).await
        }
        PartStep::AskUndo(landed, lost) => {
            let text = messages::describe_torn(facts, landed, lost);
            let id = format!("parts-torn:{}:{landed}", split.asked);
            Ok(gateway.slack.ask_undo(&key, &id, &text, landed).await?)
        }
        PartStep::Undo(number) => {
            let half = split.halves.iter().find(|half| half.part == number);
            let Some((part, by)) = split.part(number).zip(half.and_then(|h| h.by.as_deref()))
            else {
                return Ok(());
            };
            let Some(repo) =
                repo_for(gateway, (&key, split), facts.repo_of(part), number, by).await?
            else {
                return Ok(());
            };
            let name = undo_name(split, parent, number);
            let prompt = undo_prompt(facts, number, part);
            gateway.threads.ensure(thread_of(parent, &repo, (&name, by), prompt)).await?;
            update_split(gateway, &key, |_| {}).await
        }
        PartStep::Finish => {
            let done = |split: &mut RequestSplit| {
                split.ended.get_or_insert(SplitEnd::Done);
            };
            update_split(gateway, &key, done).await
        }
    }
}

/// The Repo of a part, if who said yes may have something built there; told where not.
async fn repo_for(
    gateway: &WorkServices,
    (key, split): (&ThreadKey, &RequestSplit),
    name: &str,
    number: u32,
    by: &str,
) -> Result<Option<std::sync::Arc<Repo>>, PartsError> {
    let Some(repo) = gateway.context.repo(&key.namespace, name) else {
        let text = format!(
            ":warning: Part {number} can't begin: there is no Repo `{name}` any more. It begins as soon as there is one."
        );
        gateway.slack.alert(key, &alert_id("parts-repo", split, number), &text).await?;
        return Ok(None);
    };
    if gateway.slack.may_decide(&repo, by).await? {
        return Ok(Some(repo));
    }
    let text = format!(
        ":warning: Part {number} can't begin: who said yes may not decide in Repo `{name}`. Somebody who may starts a \
         conversation there."
    );
    gateway.slack.alert(key, &alert_id("parts-right", split, number), &text).await?;
    Ok(None)
}

/// The key under which something is told of a part: a later request of the same conversation has parts of these numbers,
/// too.
fn alert_id(what: &str, split: &RequestSplit, number: u32) -> String {
    format!("{what}:{}:{number}", split.asked)
}

async fn update_split(
    gateway: &WorkServices,
    key: &ThreadKey,
    change: impl Fn(&mut RequestSplit) + Send + Sync,
) -> Result<(), PartsError> {
    let changed = |status: &mut ThreadStatus| {
        if let Some(split) = &mut status.split {
            change(split);
        }
        status.last_activity = Some(Time(Timestamp::now()));
    };
    gateway.threads.update(key, changed).await?;
    Ok(())
}

fn undo_name(split: &RequestSplit, parent: &Thread, number: u32) -> String {
    let part = split.part(number).and_then(|part| part.repo.as_deref());
    let repo = part.unwrap_or(&parent.spec.repo);
    child_name(repo, &format!("{} {}", parent.name_any(), split.asked), &format!("undo-{number}"))
}

/// Parts whose taking back has its Thread.
pub(super) fn undone_parts(
    gateway: &WorkServices,
    parent: &Thread,
    split: &RequestSplit,
) -> Vec<u32> {
    let has = |number: &u32| {
        freshest_thread(gateway, parent, undo_name(split, parent, *number)).is_some()
    };
    split.halves.iter().map(|half| half.part).filter(has).collect()
}

/// The Thread of a part: one, however often it is made.
fn thread_of(parent: &Thread, repo: &Repo, (name, by): (&str, &str), prompt: String) -> Thread {
    let spec = ThreadSpec {
        repo: repo.name_any(),
        prompt: Some(prompt),
        parent: Some(parent.name_any()),
        requested_by: Some(by.to_owned()),
        ..ThreadSpec::default()
    };
    let mut thread = Thread::new(name, spec);
    thread.metadata.namespace = parent.namespace();
    thread.labels_mut().insert(names::LABEL_REPO.to_owned(), repo.name_any());
    // Goes with its Repo, and stays when its parent goes.
    thread.metadata.owner_references = repo.owner_ref(&()).map(|owner| vec![owner]);
    thread
}

fn prompt_of(facts: &SplitFacts<'_>, number: u32, part: &RequestPart) -> String {
    let of = facts.split.parts.len();
    let others = facts.split.numbered().filter(|(other, _)| *other != number);
    let others: Vec<String> = others
        .map(|(other, part)| format!("{other}. {} (`{}`)", part.title, facts.repo_of(part)))
        .collect();
    format!(
        "**{}** (part {number} of {of} of a larger request)\n\n{}\n\nBuild this part and nothing of the others, which have threads \
         of their own: {}.",
        part.title,
        part.request,
        others.join("; ")
    )
}

fn undo_prompt(facts: &SplitFacts<'_>, number: u32, part: &RequestPart) -> String {
    let thread = facts.threads.get(&number);
    let pull = thread.and_then(|thread| thread.pull.as_ref());
    let pull = pull.map(|(n, url)| format!("pull request #{n} ({url})")).unwrap_or_default();
    let commit = thread.and_then(|thread| thread.merged.clone()).unwrap_or_default();
    format!(
        "Take back {pull}, merged as {commit}: **{}**. The other half of the request will not be merged, and this one alone is not \
         wanted. Undo exactly what that commit changed, and keep what came after it; where the two overlap, say so in the plan.",
        part.title
    )
}

/// The pages of pull requests on which a part's depends.
pub(super) fn needed_pulls(facts: &SplitFacts<'_>, number: u32) -> Vec<String> {
    let after = facts.split.part(number).map(|part| part.after.clone()).unwrap_or_default();
    let pull = |number: u32| facts.threads.get(&number)?.pull.as_ref().map(|(_, url)| url.clone());
    after.into_iter().filter_map(pull).collect()
}

/// Adds dependencies to the descriptions of open pull requests, as soon as they are known.
pub(super) async fn link_pulls(
    gateway: &WorkServices,
    parent: &Thread,
    facts: &SplitFacts<'_>,
) -> Result<(), PartsError> {
    let key = ThreadKey::from(parent);
    for (number, part) in facts.split.numbered() {
        let needs = needed_pulls(facts, number);
        let thread = facts.threads.get(&number);
        let pull = thread.and_then(|thread| thread.pull.as_ref());
        let (Some((pull, _)), false) = (pull, part.linked) else { continue };
        if needs.len() < part.after.len() || part.after.is_empty() {
            continue;
        }
        let Some(repo) = gateway.context.repo(&key.namespace, facts.repo_of(part)) else {
            continue;
        };
        let github = GitHub::of(&gateway.context, &repo).await?;
        let found = github.pull(*pull).await?;
        let body = found.body.clone().unwrap_or_default();
        let linked = receipt::with_needed(&body, &needs);
        if linked != body && GitHubPull::is_open(&found) {
            github.update_pull(*pull, None, Some(&linked)).await?;
        }
        let done = |split: &mut RequestSplit| {
            if let Some(part) = split.parts.get_mut(number as usize - 1) {
                part.linked = true;
            }
        };
        update_split(gateway, &key, done).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_part_from_its_beginning_is_told_of_each_request() {
        let split = |asked: &str| RequestSplit {
            asked: asked.parse().unwrap(),
            role: "pm".into(),
            parts: Vec::new(),
            declined: false,
            approved_by: None,
            halves: Vec::new(),
            ended: None,
        };
        let id = |asked: &str| alert_id("parts-repo", &split(asked), 1);
        assert_eq!(id("5.000000"), id("5.000000"));
        assert_ne!(id("5.000000"), id("6.000000"));
    }
}
