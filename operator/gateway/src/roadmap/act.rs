//! Carrying out what was decided about a roadmap, one step at a time.

use codebutler_crds::thread::{ApprovedItem, RoadmapEnd, RoadmapRun};
use codebutler_crds::wire::PlanChoice;
use codebutler_crds::{NanoUsd, Repo, SlackTs, Thread, ThreadSpec, ThreadStatus, names};
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_models::budget::purse::agreed_budget;
use codebutler_roadmap::RoadmapItem;
use codebutler_runtime::step;
use codebutler_slack::questions::plan;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Resource as _, ResourceExt as _};
use sha2::{Digest as _, Sha256};

use super::branches::is_settled;
use super::child::{ChildState, child_name};
use super::decide::{ItemStanding, RoadmapFacts, RoadmapStep, TRIES, WaitingReason};
use super::origin::ItemOrigin;
use super::{LookError, digest_day, messages};
use crate::work::WorkServices;

/// The key of the message that shows how it stands.
pub(super) const DASHBOARD: &str = "roadmap-dashboard";
/// The tool with which a lead looks back.
const PROPOSE: &str = "ProposeLearnings";

pub(super) async fn carry_out(
    gateway: &WorkServices,
    repo: &Repo,
    parent: &Thread,
    facts: &RoadmapFacts<'_>,
    step: RoadmapStep,
) -> Result<(), LookError> {
    let key = ThreadKey::from(parent);
    let (run, base) = (facts.run, &repo.spec.git.branch);
    match step {
        RoadmapStep::Refuse(why) => {
            let text = messages::describe_refusal(&why, facts.file, base);
            gateway.slack.notice(&key, &format!("roadmap-refused:{}", run.wanted), &text).await?;
            let wanted = &run.wanted;
            update_run(gateway, &key, |run| run.answered = Some(wanted.clone())).await
        }
        RoadmapStep::Ask(items) => {
            let shown: Vec<String> = items.iter().map(|i| format!("{} {}", i.id, i.hash)).collect();
            let digest = hex::encode(&Sha256::digest(shown.join("\n"))[..6]);
            // An earlier message about the same items may have lost its buttons to a question in between, so it needs
            // another key.
            let before = run.proposal.as_ref().map(|asked| format!("-{}", asked.ts));
            let id = format!("roadmap-{}-{digest}{}", run.wanted, before.unwrap_or_default());
            let whole = messages::whole_items(facts.file, &items);
            let draft = |file: Option<&str>| {
                messages::roadmap_question(facts, &items, base, &repo.spec.limits, file)
            };
            Ok(gateway.slack.ask_roadmap(&key, &id, &whole, draft).await?)
        }
        RoadmapStep::Start { item: id, on } => {
            let item = facts.file.and_then(|file| file.item(&id));
            let Some((item, by)) = item.zip(run.approved_by.as_deref()) else { return Ok(()) };
            if !may_still_decide(gateway, repo, &key, by).await? {
                return Ok(());
            }
            // The gateway would bring it up to date, but a merge of its own and a pull request for a branch that goes
            // at once are worth nothing to anybody.
            if on.as_deref().is_some_and(|on| is_just_asked(facts, on)) {
                return Ok(());
            }
            step::point("before item");
            let mut thread = thread_of(parent, repo, item, by, agreed_budget(run, repo));
            if let Some(on) = &on {
                let name = names::ANNOTATION_STACKED_ON.to_owned();
                thread.annotations_mut().insert(name, on.clone());
            }
            gateway.threads.ensure(thread).await?;
            step::point("after item");
            tracing::info!(thread = key.name, item = id, on, "roadmap_item_started");
            touch_thread(gateway, &key).await
        }
        RoadmapStep::Approve { item, thread, plan } => {
            let Some(by) = run.approved_by.as_deref() else { return Ok(()) };
            if !may_still_decide(gateway, repo, &key, by).await? {
                return Ok(());
            }
            let child = ThreadKey { namespace: key.namespace, name: thread };
            approve_plan(gateway, repo, &child, &plan, by).await?;
            let text = format!(
                "Item {} of the roadmap was approved with its acceptance criteria: a plan within them counts as approved. \
                 Whoever wants it otherwise writes here.",
                messages::item_title(facts.file, &item)
            );
            gateway.slack.notice(&child, &format!("roadmap-approved:{plan}"), &text).await?;
            Ok(())
        }
        RoadmapStep::Retry { item, thread, role, mark, number } => {
            // Recorded before it is told, so that a try is counted once however often it has to be told.
            let tried = |run: &mut RoadmapRun| {
                let own = run.items.iter_mut().find(|own| own.id == item);
                if let Some(own) = own.filter(|own| own.failed.as_ref() != Some(&mark)) {
                    (own.tries, own.failed) = (number, Some(mark.clone()));
                }
            };
            update_run(gateway, &key, tried).await?;
            step::point("a try is counted");
            let child = ThreadKey { namespace: key.namespace, name: thread };
            let text = format!(
                "Try {} of {TRIES}: go on where you stopped. Look at what failed first; if it fails for the same reason, take another \
                 way, or ask the people what you can't find out.",
                number + 1
            );
            let id = format!("roadmap-try-{}", number + 1);
            Ok(gateway.slack.remark(&child, &id, &text, &role).await?)
        }
        RoadmapStep::Finish => {
            let count = run.items.len();
            let cost = facts.spent.in_cents();
            let text = format!("All {count} items of the roadmap are merged. They cost {cost}.");
            gateway.slack.alert(&key, &format!("roadmap-done:{}", run.wanted), &text).await?;
            look_back(gateway, repo, &key, facts).await?;
            let wanted = &run.wanted;
            let done = |run: &mut RoadmapRun| {
                if run.wanted == *wanted {
                    run.ended.get_or_insert(RoadmapEnd::Done);
                }
            };
            update_run(gateway, &key, done).await
        }
    }
}

/// Asks the lead to look back on all items at once, so that the retrospective holds up no item.
async fn look_back(
    gateway: &WorkServices,
    repo: &Repo,
    key: &ThreadKey,
    facts: &RoadmapFacts<'_>,
) -> Result<(), LookError> {
    let spec = repo.spec.retrospective.clone().unwrap_or_default();
    let roles = gateway.context.roles_of(repo);
    let proposes = |name: &String| {
        let role = roles.iter().find(|role| role.spec.role == *name);
        role.is_some_and(|role| role.spec.tools.offered().any(|tool| tool == PROPOSE))
    };
    let lead = RepoTeam::of(&roles).leads.filter(proposes);
    let Some(lead) = lead.filter(|_| spec.enabled && facts.spent >= spec.min_cost) else {
        return Ok(());
    };
    let text = messages::look_back_request(facts);
    let id = format!("roadmap-learn:{}", facts.run.wanted);
    Ok(gateway.slack.remark(key, &id, &text, &lead).await?)
}

/// Tells people, once, of all that is ready to be merged: nothing goes on without them.
pub(super) async fn tell_ready(
    gateway: &WorkServices,
    key: &ThreadKey,
    facts: &RoadmapFacts<'_>,
    link: impl Fn(&str) -> Option<String>,
) -> Result<(), LookError> {
    let Some(newest) = facts.untold_ready() else { return Ok(()) };
    let text = messages::describe_ready(facts, link);
    gateway.slack.alert(key, &format!("roadmap-ready:{newest}"), &text).await?;
    step::point("people are told what is ready");
    update_run(gateway, key, |run| run.told = run.told.clone().max(Some(newest.clone()))).await
}

/// Tells the Thread of an item that what it is built on will not be merged.
pub(super) async fn tell_lost_base(
    gateway: &WorkServices,
    key: &ThreadKey,
    facts: &RoadmapFacts<'_>,
    item: &ApprovedItem,
) -> Result<(), LookError> {
    let ItemStanding::Asks(WaitingReason::LostBase(gone), _) = facts.standing(item) else {
        return Ok(());
    };
    let Some(child) = facts.children.get(&item.id) else { return Ok(()) };
    let thread = ThreadKey { namespace: key.namespace.clone(), name: child.thread.clone() };
    let text = messages::describe_lost_base(&messages::item_title(facts.file, &gone));
    Ok(gateway.slack.alert(&thread, &format!("stack-lost:{gone}"), &text).await?)
}

/// Records the approved text's hash in a Thread that the product made. A later look retries if that fails.
pub(super) async fn note_origin(
    gateway: &WorkServices,
    origin: &ItemOrigin<'_>,
    thread: &Thread,
) -> Result<(), LookError> {
    let known = thread.status.as_ref().is_some_and(|status| status.item_hash.is_some());
    let Some(item) = origin.made_from(thread).filter(|_| !known) else { return Ok(()) };
    let hash = item.hash();
    let say = |status: &mut ThreadStatus| {
        status.item_hash.get_or_insert_with(|| hash.clone());
    };
    gateway.threads.update(&ThreadKey::from(thread), say).await?;
    Ok(())
}

/// True if the person who approved may still decide. Tells the conversation if not, or nobody would know why nothing
/// happens.
async fn may_still_decide(
    gateway: &WorkServices,
    repo: &Repo,
    key: &ThreadKey,
    by: &str,
) -> Result<bool, LookError> {
    if gateway.slack.may_decide(repo, by).await? {
        return Ok(true);
    }
    let text = "Who approved this roadmap may not decide here any more, so nothing more begins and plans wait for people. Somebody \
                who may has to say `stop`, and then `develop everything`.";
    gateway.slack.alert(key, &format!("roadmap-right:{by}"), text).await?;
    Ok(false)
}

/// Tells once a day how it stands, where the Repo wants that.
pub(super) async fn tell_digest(
    gateway: &WorkServices,
    repo: &Repo,
    key: &ThreadKey,
    facts: &RoadmapFacts<'_>,
    dashboard: &str,
) -> Result<(), LookError> {
    let at = repo.spec.roadmap.as_ref().and_then(|spec| spec.digest.as_deref());
    let (zone, told) = (&repo.spec.limits.time_zone, facts.run.digest.as_deref());
    let day = at.and_then(|at| digest_day(at, zone, told, Timestamp::now()));
    let Some(day) = day else { return Ok(()) };
    gateway.slack.alert(key, &format!("roadmap-digest:{day}"), dashboard).await?;
    update_run(gateway, key, |run| run.digest = Some(day.clone())).await
}

async fn update_run(
    gateway: &WorkServices,
    key: &ThreadKey,
    change: impl Fn(&mut RoadmapRun) + Send + Sync,
) -> Result<(), LookError> {
    let changed = |status: &mut ThreadStatus| {
        if let Some(run) = &mut status.roadmap {
            change(run);
        }
        status.last_activity = Some(Time(Timestamp::now()));
    };
    gateway.threads.update(key, changed).await?;
    Ok(())
}

/// Records activity in a Thread, so that it is not collected as forgotten.
async fn touch_thread(gateway: &WorkServices, key: &ThreadKey) -> Result<(), LookError> {
    update_run(gateway, key, |_| {}).await
}

/// Approves a plan on behalf of the roadmap's approver, unless somebody said something in between.
async fn approve_plan(
    gateway: &WorkServices,
    repo: &Repo,
    child: &ThreadKey,
    asked: &SlackTs,
    by: &str,
) -> Result<(), LookError> {
    let team = RepoTeam::of(&gateway.context.roles_of(repo));
    let id = format!("roadmap:{asked}");
    let approved = |status: &mut ThreadStatus| {
        let open = status.plan.as_ref().filter(|plan| plan.ts == *asked && plan::is_open(plan));
        let Some(open) = open.filter(|_| status.speaker.is_none()) else { return Ok(()) };
        let role = plan::carries_out(&team, status, &open.role).to_owned();
        plan::record_answer(status, asked, PlanChoice::Approve, (by, &role), id.clone(), &team)
    };
    gateway.threads.try_update(child, approved).await?;
    Ok(())
}

/// The Thread of an item: one, however often it is made.
fn thread_of(
    parent: &Thread,
    repo: &Repo,
    item: &RoadmapItem,
    by: &str,
    budget: Option<NanoUsd>,
) -> Thread {
    let name = child_name(&parent.spec.repo, &parent.name_any(), &item.id);
    let spec = ThreadSpec {
        repo: parent.spec.repo.clone(),
        prompt: Some(messages::item_prompt(item)),
        parent: Some(parent.name_any()),
        item: Some(item.id.clone()),
        requested_by: Some(by.to_owned()),
        ..ThreadSpec::default()
    };
    let mut thread = Thread::new(&name, spec);
    thread.metadata.namespace = parent.namespace();
    thread.labels_mut().insert(names::LABEL_REPO.to_owned(), parent.spec.repo.clone());
    if let Some(budget) = budget {
        let name = names::ANNOTATION_ROADMAP_BUDGET.to_owned();
        thread.annotations_mut().insert(name, budget.to_string());
    }
    // Goes with its Repo, and stays when its parent goes.
    thread.metadata.owner_references = repo.owner_ref(&()).map(|owner| vec![owner]);
    thread
}

/// True if people were asked in a Thread so lately that they may be about to answer.
fn is_just_asked(facts: &RoadmapFacts<'_>, thread: &str) -> bool {
    facts.children.values().filter(|child| child.thread == thread).any(|child| match &child.state {
        ChildState::Ready(ts) | ChildState::Asks(ts) => !is_settled(ts, Timestamp::now()),
        _ => false,
    })
}
