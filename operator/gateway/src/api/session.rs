//! `GET /v1/session`: what a role has to know, after making sure that its branch exists.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use codebutler_crds::role::RoleModel;
use codebutler_crds::thread::AnswerFeedback;
use codebutler_crds::wire::{ErrorCode, RoleCard, RoleSession, UnhelpfulAnswer};
use codebutler_crds::{Repo, SlackTs, ThreadStatus, names};
use codebutler_gateway_core::api_error::{ApiError, require_conversation};
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::dispatch::RepoTeam;
use codebutler_gateway_core::extract::OpenCaller;
use codebutler_gateway_core::github::GitHub;
use codebutler_gateway_core::rights::DecisionRights;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_models::catalog::ModelCatalog;
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::egress_endpoints::check::needs_enforcement;
use crate::receipt;
use crate::roadmap::{NotedStanding, note_item, stack};
use crate::state::SharedGateway;

/// Returns the session of the caller's role.
pub(super) async fn read_session(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
) -> Result<Json<RoleSession>, ApiError> {
    needs_enforcement(&gateway.egress, &caller)?;
    needs_slot(&caller)?;
    gateway.work.ledger.flush(&caller.key()).await;
    let base_commit = publish_branch(&gateway, &caller).await?;
    // An item's branch moves on with its file, or began on another one's.
    let base_commit = base_commit.filter(|_| caller.thread.spec.item.is_none());
    note_progress(&gateway, &caller).await;
    let roles = gateway.work.context.roles_of(&caller.repo);
    let team = RepoTeam::of(&roles);
    let status = caller.thread.status.clone().unwrap_or_default();
    let team = team.for_plan(&status);
    let cards = roles.iter().map(|role| RoleCard {
        role: role.spec.role.clone(),
        name: role.spec.display.name.clone(),
        description: role.spec.description.clone(),
        implements: team.implements.as_ref() == Some(&role.spec.role),
        reviews: team.reviews.as_ref() == Some(&role.spec.role),
        leads: team.leads.as_ref() == Some(&role.spec.role),
    });
    let root = require_conversation(&caller.thread)?.ts.clone();
    let catalog = &gateway.models.models.catalog;
    catalog.ready(&gateway.models.models.asker(&gateway.work.context), &caller.repo).await;
    let facts = catalog.told(&caller.repo, &caller.role.spec.model).collect();
    let (plan_text, people) = gateway.work.slack.told(&caller.repo, &caller.thread).await;
    let decisions = DecisionRights::of(&roles).of_role(caller.role_name());
    let learns_later = gateway.work.context.roadmap_of(&caller.thread).is_some();
    let session = describe_session(&caller, cards.collect(), base_commit, root);
    let session = if learns_later { learn_later(session) } else { session };
    let learns = session.tools.iter().any(|tool| tool == "ProposeLearnings");
    let link = if learns {
        gateway.work.slack.permalink(&caller.repo, &caller.thread).await
    } else {
        None
    };
    let first_pass = first_pass(catalog, &caller, &session);
    let first_look = first_look(catalog, &caller, &session);
    let is_first = is_first(&gateway, &caller);
    Ok(Json(RoleSession {
        facts,
        decisions,
        plan_text,
        people,
        link,
        first_pass,
        first_look,
        is_first,
        stacked_on: stack::find_below(&gateway.work, &caller.thread),
        ..session
    }))
}

/// Refuses a role without a slot: the controller counts runs, and knows whose turn it is.
fn needs_slot(caller: &ProvenCaller) -> Result<(), ApiError> {
    let (repo, role) = (&caller.repo, caller.role_name());
    let may_run = |suspended| {
        caller.thread.status.as_ref().is_some_and(|status| status.may_run(role, suspended))
    };
    if !may_run(false) {
        let message = format!("the role {role} waits for a slot of its Repo: try again");
        return Err(ApiError::new(ErrorCode::Unavailable, message));
    }
    if !may_run(repo.spec.suspend) {
        let message = format!("Repo `{}` is suspended: unset its spec.suspend", repo.name_any());
        return Err(ApiError::new(ErrorCode::Upstream, message));
    }
    Ok(())
}

fn describe_session(
    caller: &ProvenCaller,
    roles: Vec<RoleCard>,
    base_commit: Option<String>,
    root: SlackTs,
) -> RoleSession {
    let ThreadKey { namespace, name } = caller.key();
    let role = &caller.role.spec;
    let status = caller.thread.status.clone().unwrap_or_default();
    let done = status.roles.get(&role.role).and_then(|own| own.done.clone());
    let details = status.approved_details();
    let complexity = details.and_then(|details| details.complexity);
    let planned = details.map(|details| details.files.clone()).unwrap_or_default();
    let model = role.model.for_work(complexity).to_owned();
    let stronger = role.model.stronger_than(&model).map(str::to_owned);
    let hardest = role.model.tiers.as_ref().and_then(|tiers| tiers.complex.as_ref());
    let steps_up = hardest.is_some() && hardest == stronger.as_ref();
    let is_strongest = hardest == Some(&model);
    let test = receipt::test_command(&caller.repo, &status).map(str::to_owned);
    let looks_back = looks_back(&caller.repo, &status);
    let unhelpful = unhelpful_answers(role.tools.offered().any(|tool| tool == LOOKS_BACK), &status);
    RoleSession {
        namespace,
        branch: names::branch_name(&name),
        thread: name,
        repo: caller.repo.name_any(),
        role: role.role.clone(),
        model,
        context_tokens: role.model.context_tokens,
        max_tokens: role.model.max_tokens,
        facts: BTreeMap::new(),
        tools: role.tools.offered().map(str::to_owned).collect(),
        decisions: Vec::new(),
        max_turns: role.limits.turns,
        timeout_seconds: role.limits.timeout_seconds,
        idle_timeout_seconds: role.idle_timeout_seconds,
        prompt: caller.role.prompt().map(str::to_owned),
        roles,
        base_branch: caller.repo.spec.git.branch.clone(),
        base_commit,
        stacked_on: None,
        plan: status.plan.map(|plan| *plan),
        plan_text: None,
        people: BTreeMap::new(),
        pull_request: status.pull_request.map(|pull| *pull),
        done,
        root,
        usage: status.roles.into_iter().map(|(role, own)| (role, own.usage)).collect(),
        models: talking_models(&role.model),
        stronger,
        steps_up,
        is_strongest,
        tool_overrides: caller.repo.spec.policy.tool_overrides.clone(),
        test,
        planned,
        complexity,
        link: None,
        looks_back,
        learns_later: false,
        look_back_limit: looks_back
            .then(|| caller.repo.spec.retrospective.clone().unwrap_or_default().max_cost),
        keeps_journal: looks_back
            && caller.repo.spec.retrospective.clone().unwrap_or_default().journal,
        unhelpful,
        first_pass: None,
        first_look: None,
        is_first: false,
        setup: caller.repo.spec.worktree.setup.clone(),
        sparse: caller.repo.spec.worktree.sparse.clone(),
        hosts: caller.repo.spec.egress.all_hosts().map(str::to_owned).collect(),
        parallelism: role.at_once(),
    }
}

/// The session of an item: the team looks back when all items are merged, and none of them waits for it.
fn learn_later(session: RoleSession) -> RoleSession {
    RoleSession {
        learns_later: true,
        looks_back: false,
        look_back_limit: None,
        keeps_journal: false,
        ..session
    }
}

/// True if the Repo has no other Thread, as far as Threads are kept: nobody has talked about it before.
fn is_first(gateway: &SharedGateway, caller: &ProvenCaller) -> bool {
    let own = caller.key();
    let threads = gateway.work.context.threads.state();
    let mut others = threads.iter().filter(|thread| ThreadKey::from(&***thread) != own);
    !others.any(|thread| {
        thread.namespace().as_deref() == Some(&*own.namespace)
            && thread.spec.repo == caller.repo.name_any()
    })
}

/// The cheapest of the models that a role talks with, if the Repo wants reviews to begin with it.
fn first_pass(
    catalog: &ModelCatalog,
    caller: &ProvenCaller,
    session: &RoleSession,
) -> Option<String> {
    let reviews = session.tools.iter().any(|tool| tool == "PlanReview");
    if !reviews || !caller.repo.spec.review.unwrap_or_default().two_pass {
        return None;
    }
    let now = Timestamp::now();
    let price = |model: &String| {
        let facts = catalog.facts(&caller.repo, model);
        let prices = facts.prices.filter(|_| facts.tools != Some(false))?;
        Some(prices.at(0, now).completion)
    };
    let priced = session.models.iter().filter_map(|model| Some((price(model)?, model)));
    let (_, cheapest) = priced.min_by_key(|(price, _)| *price)?;
    (*cheapest != session.model).then(|| cheapest.clone())
}

/// The cheaper model that looks at a conversation first, until there is a plan.
fn first_look(
    catalog: &ModelCatalog,
    caller: &ProvenCaller,
    session: &RoleSession,
) -> Option<String> {
    let first = caller.role.spec.model.first_look.as_ref()?;
    let facts = catalog.facts(&caller.repo, first);
    let fits = facts.tools != Some(false) && catalog.may_have(&caller.repo, first);
    (session.plan.is_none() && *first != session.model && fits).then(|| first.clone())
}

/// Tool that a role has for the retrospective.
const LOOKS_BACK: &str = "ProposeLearnings";

/// Answers that people marked as unhelpful, for the retrospective.
fn unhelpful_answers(looks_back: bool, status: &ThreadStatus) -> Vec<UnhelpfulAnswer> {
    let feedback = status.feedback.iter().filter(|one| looks_back && !one.helps);
    let answer = |one: &AnswerFeedback| UnhelpfulAnswer {
        message: one.message.clone(),
        role: one.role.clone(),
        by: one.by.clone(),
        why: one.why.clone(),
    };
    feedback.map(answer).collect()
}

/// True if a conversation gets a retrospective: more than one role worked on its pull request, and it cost as much
/// as the Repo says.
fn looks_back(repo: &Repo, status: &ThreadStatus) -> bool {
    let spec = repo.spec.retrospective.clone().unwrap_or_default();
    let worked = status.roles.values().filter(|role| role.usage.calls > 0).count();
    let cost = status.roles.values().map(|role| role.usage.cost.0).fold(0, u64::saturating_add);
    spec.enabled && worked > 1 && status.pull_request.is_some() && cost >= spec.min_cost.0
}

/// Models that users may switch to: each once, and none that only draws or hears.
fn talking_models(model: &RoleModel) -> Vec<String> {
    let mut models: Vec<String> = Vec::new();
    for (_, model) in model.talking() {
        if !models.iter().any(|known| known == model) {
            models.push(model.to_owned());
        }
    }
    models
}

/// Before anything is checked out for a run the file on an item's branch says that it is in progress, so that the run
/// has nothing to bring together. What fails is done by whoever looks after the roadmap.
async fn note_progress(gateway: &SharedGateway, caller: &ProvenCaller) {
    let Some(item) = &caller.thread.spec.item else { return };
    let branch = names::branch_name(&caller.thread.name_any());
    let noted = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        note_item(&github, (item, &branch), &NotedStanding::InProgress).await
    };
    if let Err(error) = noted.await {
        tracing::warn!(%error, "roadmap_update_failed");
    }
}

/// Creates the Thread's branch on the remote, once: afterwards its status says so.
async fn publish_branch(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
) -> Result<Option<String>, ApiError> {
    if caller.thread.status.as_ref().is_some_and(|status| status.branch.is_some()) {
        return Ok(None);
    }
    let branch = names::branch_name(&caller.thread.name_any());
    let made = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        let from = stack::base_branch(&gateway.work, &github, &caller.repo, &caller.thread).await?;
        github.ensure_branch(&branch, &from).await
    };
    let base_commit = gateway.git.outcomes.note(caller, made.await).await?;
    gateway
        .work
        .threads
        .set_branch(&caller.key(), &branch)
        .await
        .map_err(|error| explain_unwritten(&error))?;
    Ok(base_commit)
}
