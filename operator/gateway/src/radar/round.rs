//! One look at a Repo's open branches: observe, decide, tell, take note.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use codebutler_crds::thread::{BranchRadar, PullState};
use codebutler_crds::wire::TextMerge;
use codebutler_crds::{Repo, Thread, ThreadStatus};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_git::{
    BranchChange, BranchSurvey, TriedMerge, look_at_branch, look_at_fork, take_survey,
};
use kube::ResourceExt as _;

use super::contact::{BranchContact, compare_branches};
use super::current::{self, RadarResponse, judge_base};
use super::decide::{RadarNotice, decide_radar, note_told, summarize_radar};
use super::side::{BranchSide, MetBranch};
use crate::roadmap::{self, stack};
use crate::work::WorkServices;

/// Maximum number of messages of one look; the rest comes with the next one.
const MAX_TOLD: usize = 24;

/// A branch with what it changes.
struct ComparedBranch {
    thread: Arc<Thread>,
    side: BranchSide,
    tip: String,
    change: Arc<BranchChange>,
}

/// Two branches that touch, by index.
struct TouchingPair {
    sides: (usize, usize),
    contact: Arc<BranchContact>,
    merged: TriedMerge,
}

/// Cache of an earlier look at a Repo's branches: only those that moved are compared again.
#[derive(Default)]
pub(super) struct RadarMemory {
    base: String,
    seen: BTreeSet<String>,
    /// Contacts by two tips, the lesser first.
    contacts: HashMap<(String, String), Arc<BranchContact>>,
}

impl RadarMemory {
    fn learn(&mut self, base: &str, branches: &[ComparedBranch]) {
        if self.base != base {
            *self = Self { base: base.to_owned(), ..Self::default() };
        }
        let now: BTreeSet<String> = branches.iter().map(|branch| branch.tip.clone()).collect();
        self.contacts.retain(|(one, other), _| now.contains(one) && now.contains(other));
        for fresh in branches.iter().filter(|branch| !self.seen.contains(&branch.tip)) {
            for other in branches.iter().filter(|other| other.tip != fresh.tip) {
                if let Some(contact) = compare_branches(&fresh.change, &other.change) {
                    self.contacts.insert(branch_tips(fresh, other), Arc::new(contact));
                }
            }
        }
        self.seen = now;
    }
}

pub(super) async fn look_around(
    gateway: &WorkServices,
    repo: &Arc<Repo>,
    memory: &mut RadarMemory,
) {
    let threads: Vec<_> = gateway
        .open_threads(repo, None)
        .into_iter()
        .filter(|thread| branch_tip(thread).is_some())
        .collect();
    let Some(first) = threads.first() else { return };
    let survey = match take_survey(&gateway.git, repo, &ThreadKey::from(&**first)).await {
        Ok(survey) => survey,
        Err(error) => {
            tracing::warn!(repo = repo.name_any(), %error, "branch_survey_failed");
            return;
        }
    };
    for thread in &threads {
        look_at_branch(&gateway.git, repo, &survey, thread).await;
        look_at_fork(&gateway.git, repo, &survey, thread).await;
    }
    let branches = observe_branches(gateway, &survey, threads).await;
    let past = find_behind(gateway, repo, &survey, &branches).await;
    let pairs = pair_branches(gateway, &survey, &branches, memory).await;
    let mut of_branch: Vec<Vec<&TouchingPair>> = branches.iter().map(|_| Vec::new()).collect();
    for pair in &pairs {
        of_branch[pair.sides.0].push(pair);
        of_branch[pair.sides.1].push(pair);
    }
    let mut left = MAX_TOLD;
    for (at, branch) in branches.iter().enumerate() {
        let met = of_branch[at].iter().map(|pair| seen_from(at, pair, &branches));
        let met: Vec<MetBranch<'_>> = met.collect();
        let before = radar_status(&branch.thread);
        let (mut after, words) = decide_radar(&branch.side, &before, &met);
        let (base, response) = match &past[at] {
            BaseState::Past(past) => {
                let mode = repo.spec.branches.unwrap_or_default().update;
                let (base, response) =
                    judge_base(&past.as_seen(repo, branch), mode, before.base.as_ref());
                (Some(base), response)
            }
            BaseState::Current => {
                end_offer(gateway, branch).await;
                (None, None)
            }
            BaseState::Unknown => (before.base.clone(), None),
        };
        after.base = base;
        summarize_radar(&mut after);
        if after != before || !words.is_empty() || response.is_some() {
            if let Some(response) = response {
                answer_base(gateway, repo, branch, &mut after, response).await;
            }
            settle_radar(gateway, repo, branch, after, words, &mut left).await;
        }
    }
    if left == 0 {
        gateway.branches.touch(repo);
    }
}

fn branch_tip(thread: &Thread) -> Option<&str> {
    thread.status.as_ref()?.branch.as_deref()
}

fn radar_status(thread: &Thread) -> BranchRadar {
    let known = thread.status.as_ref().and_then(|status| status.radar.as_deref());
    known.cloned().unwrap_or_default()
}

/// The branches that change something.
async fn observe_branches(
    gateway: &WorkServices,
    survey: &BranchSurvey,
    threads: Vec<Arc<Thread>>,
) -> Vec<ComparedBranch> {
    let mut all = Vec::new();
    for thread in threads {
        let Some((name, tip)) =
            branch_tip(&thread).and_then(|name| Some((name, survey.tip(name)?)))
        else {
            continue;
        };
        let Some(change) = gateway.branches.change(survey, tip).await else { continue };
        let side = BranchSide {
            name: thread.name_any(),
            branch: name.to_owned(),
            created: thread.creation_timestamp().map(|time| time.0),
            size: change.size,
        };
        let tip = tip.to_owned();
        all.push(ComparedBranch { thread, side, tip, change });
    }
    all
}

/// Items of a roadmap all change its file, each where it stands.
fn is_only_roadmap(contact: &BranchContact) -> bool {
    !contact.files.is_empty()
        && contact.files.iter().all(|file| file == roadmap::PATH)
        && contact.symbols.is_empty()
}

/// Pairs of branches that touch each other, with a tried merge. Only those that share a file are tried.
async fn pair_branches(
    gateway: &WorkServices,
    survey: &BranchSurvey,
    branches: &[ComparedBranch],
    memory: &mut RadarMemory,
) -> Vec<TouchingPair> {
    memory.learn(&survey.base, branches);
    let mut found = Vec::new();
    for (one, first) in branches.iter().enumerate() {
        for (other, second) in branches.iter().enumerate().skip(one + 1) {
            if let Some(contact) = memory.contacts.get(&branch_tips(first, second)) {
                found.push(((one, other), contact.clone()));
            }
        }
    }
    let shares = |contact: &BranchContact| !contact.files.is_empty();
    let tried: Vec<(&str, &str)> = found
        .iter()
        .filter(|(_, contact)| shares(contact))
        .map(|((one, other), _)| (&*branches[*one].tip, &*branches[*other].tip))
        .collect();
    let mut answers = gateway.branches.merges(survey, &tried).await.into_iter();
    let mut pairs = Vec::new();
    for (sides, contact) in found {
        let apart = || TriedMerge { text: TextMerge::Clean, tree: None, files: BTreeSet::new() };
        let answer = if shares(&contact) { answers.next() } else { Some(apart()) };
        let merged = answer.unwrap_or_else(TriedMerge::unknown);
        let (one, other) = (&branches[sides.0].thread, &branches[sides.1].thread);
        let is_known = is_only_roadmap(&contact)
            || stack::is_above(gateway, one, &other.name_any())
            || stack::is_above(gateway, other, &one.name_any());
        // That they meet is no news to anybody, as long as both can be merged.
        if !(is_known && merged.text == TextMerge::Clean) {
            pairs.push(TouchingPair { sides, contact, merged });
        }
    }
    pairs
}

/// State of a branch whose base branch has moved past it.
struct Past {
    behind: u64,
    left: String,
    merged: TriedMerge,
}

enum BaseState {
    Past(Past),
    /// The branch lacks nothing, or has nothing of its own.
    Current,
    /// Not found out, or of no use any more: the known state stays.
    Unknown,
}

impl Past {
    fn as_seen<'a>(&'a self, repo: &'a Repo, branch: &ComparedBranch) -> current::BranchPast<'a> {
        let status = branch.thread.status.as_ref();
        let pull = status.and_then(|status| status.pull_request.as_ref());
        current::BranchPast {
            base: &repo.spec.git.branch,
            behind: self.behind,
            text: self.merged.text,
            conflicts: &self.merged.files,
            left: &self.left,
            has_pull: pull
                .is_some_and(|pull| pull.state.unwrap_or(PullState::Open) == PullState::Open),
        }
    }
}

/// State of each branch against the base branch, with a tried merge of those that lack something. Branches whose end
/// is decided are left out.
async fn find_behind(
    gateway: &WorkServices,
    repo: &Repo,
    survey: &BranchSurvey,
    branches: &[ComparedBranch],
) -> Vec<BaseState> {
    let apart = survey.apart().await.unwrap_or_else(|error| {
        tracing::warn!(repo = repo.name_any(), %error, "branch_comparison_failed");
        HashMap::new()
    });
    let ends = |branch: &ComparedBranch| {
        let closing = branch.thread.status.as_ref().and_then(|status| status.closing.as_ref());
        closing.is_some_and(|closing| closing.choice.is_some())
    };
    let mut found = Vec::new();
    for branch in branches {
        let apart = apart.get(&branch.tip).filter(|_| !ends(branch));
        let left = match apart {
            // The branch below is brought up to date first, and this one with it.
            _ if stack::is_for_branch_below(gateway, &branch.thread) => Err(BaseState::Current),
            _ if stack::awaits_upkeep(gateway, &branch.thread) => Err(BaseState::Unknown),
            None => Err(BaseState::Unknown),
            Some(apart) if apart.behind == 0 || apart.ahead == 0 => Err(BaseState::Current),
            Some(apart) => {
                let left = gateway.branches.left(survey, &branch.tip).await;
                left.map(|left| (apart.behind, left)).ok_or(BaseState::Unknown)
            }
        };
        found.push(left);
    }
    let below: Vec<Vec<String>> =
        branches.iter().map(|branch| stack::merged_below(gateway, &branch.thread)).collect();
    let tried: Vec<(&str, &str)> = branches
        .iter()
        .zip(found.iter().zip(&below))
        .filter(|(_, (found, below))| found.is_ok() && below.is_empty())
        .map(|(branch, _)| (&*survey.base, &*branch.tip))
        .collect();
    let mut answers = gateway.branches.merges(survey, &tried).await.into_iter();
    let mut past = Vec::new();
    for ((branch, found), below) in branches.iter().zip(found).zip(below) {
        past.push(match found {
            Err(known) => known,
            Ok((behind, left)) => {
                let merged = if below.is_empty() {
                    answers.next().unwrap_or_else(TriedMerge::unknown)
                } else {
                    gateway.branches.merge_above(survey, &branch.tip, &below).await
                };
                BaseState::Past(Past { behind, left, merged })
            }
        });
    }
    past
}

/// Does what is to be done about a base branch that has moved on, and takes note of it.
async fn answer_base(
    gateway: &WorkServices,
    repo: &Repo,
    branch: &ComparedBranch,
    after: &mut BranchRadar,
    response: RadarResponse,
) {
    let key = ThreadKey::from(&*branch.thread);
    let team = RepoTeam::of(&gateway.context.roles_of(repo));
    let done = match (&response, &team.implements) {
        (RadarResponse::Mail { key: id, text }, Some(role)) => {
            gateway.slack.remark(&key, id, text, role).await
        }
        (RadarResponse::Offer { key: id, text }, Some(_)) => {
            gateway.slack.offer_update(&key, id, text).await
        }
        (RadarResponse::Mail { key: id, text } | RadarResponse::Offer { key: id, text }, None)
        | (RadarResponse::Say { key: id, text }, _) => {
            gateway.slack.notice(&key, id, text).await.map(drop)
        }
    };
    match done {
        Ok(()) => after.base.iter_mut().for_each(|base| base.told = Some(base.text)),
        Err(error) => {
            tracing::warn!(thread = key.name, %error, notice = "branch_behind", "notice_post_failed");
        }
    }
}

/// Withdraws the offer to bring a branch up to date once it is.
async fn end_offer(gateway: &WorkServices, branch: &ComparedBranch) {
    let offered = branch.thread.status.as_ref().is_some_and(|status| status.update_offer.is_some());
    let key = ThreadKey::from(&*branch.thread);
    if offered && let Err(error) = gateway.slack.end_update_offer(&key).await {
        tracing::warn!(thread = key.name, %error, "update_offer_removal_failed");
    }
}

fn branch_tips(one: &ComparedBranch, other: &ComparedBranch) -> (String, String) {
    (one.tip.clone().min(other.tip.clone()), one.tip.clone().max(other.tip.clone()))
}

/// A pair as one of its branches sees it.
fn seen_from<'a>(
    at: usize,
    pair: &'a TouchingPair,
    branches: &'a [ComparedBranch],
) -> MetBranch<'a> {
    let (one, other) = pair.sides;
    MetBranch {
        other: &branches[if one == at { other } else { one }].side,
        files: &pair.contact.files,
        symbols: &pair.contact.symbols,
        text: pair.merged.text,
        conflicts: &pair.merged.files,
    }
}

/// Tells, and takes note of it. What could not be told stays to be told.
async fn settle_radar(
    gateway: &WorkServices,
    repo: &Repo,
    branch: &ComparedBranch,
    mut after: BranchRadar,
    words: Vec<RadarNotice>,
    left: &mut usize,
) {
    let key = ThreadKey::from(&*branch.thread);
    for word in words {
        if *left == 0 {
            break;
        }
        *left -= 1;
        match tell_word(gateway, repo, &key, &word).await {
            Ok(()) => note_told(&mut after, &word.of),
            Err(error) => {
                tracing::warn!(thread = key.name, %error, notice = "branch_overlap", "notice_post_failed");
                break;
            }
        }
    }
    let write = |status: &mut ThreadStatus| {
        // Known on its own, and maybe newer than what this look began with.
        let known = status.radar.take().map(|known| *known).unwrap_or_default();
        let BranchRadar { tip, pushing, removed, fork, .. } = known;
        status.radar = Some(Box::new(BranchRadar { tip, pushing, removed, fork, ..after.clone() }));
    };
    let written = gateway.threads.update(&key, write).await;
    if let Err(error) = written {
        tracing::warn!(thread = key.name, %error, part = "branch_radar", "thread_status_write_failed");
    }
}

async fn tell_word(
    gateway: &WorkServices,
    repo: &Repo,
    key: &ThreadKey,
    word: &RadarNotice,
) -> Result<(), ApiError> {
    let team = RepoTeam::of(&gateway.context.roles_of(repo));
    match team.first().filter(|_| word.is_mail) {
        Some(role) => gateway.slack.remark(key, &word.key, &word.text, role).await,
        None => gateway.slack.notice(key, &word.key, &word.text).await.map(drop),
    }
}
