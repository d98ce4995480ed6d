//! One call from its estimate to its settlement.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codebutler_crds::NanoUsd;
use codebutler_crds::limits::ModelPrice;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::estimate;
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_runtime::step;
use jiff::Timestamp;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::answer::{self, GrantEnd, ReadAnswer};
use super::billing::{self, ProviderBill};
use super::breaker::ChosenModel;
use super::charge::{CallTerms, MadeCall, charge_call};
use super::dialect::ApiDialect;
use super::facts::KnownModelFacts;
use super::facts::price::ModelPrices;
use super::facts::route::RoutedModel;
use super::job::ModelJob;
use super::prepare::RequestShape;
use super::reshape::reshape_request;
use super::slow::AnswerPatience;
use super::stream::{self, BUFFER, EndedStream};
use super::trace;
use super::upstream::{self, CallSubject, ModelError, ModelUpstream, UpstreamRequest};
use super::verdict::{AnswerVerdict, ModelRefusal, classify_inner};
use crate::budget::{BilledCall, OpenError};
use crate::services::ModelServices;

pub(crate) enum ModelReply {
    Whole {
        answer: Bytes,
        /// The model that answered in place of the one that was asked for.
        instead: Option<String>,
    },
    Stream(mpsc::Receiver<Result<Bytes, Infallible>>),
}

/// Channel for the reply.
pub(crate) type WantedReply = oneshot::Sender<Result<ModelReply, Arc<ModelError>>>;

/// Makes a call, whether or not its reply is still waited for. Its bill, if it was charged.
pub(crate) async fn make_call(
    gateway: Arc<ModelServices>,
    caller: ProvenCaller,
    job: ModelJob,
    wanted: WantedReply,
) -> Option<ProviderBill> {
    let begun = Instant::now();
    let mut made = MadeCall::of_model(job.model(), begun);
    let trying = Box::pin(try_models(&gateway, &caller, &job, wanted, &mut made));
    let outcome = trying.instrument(trace::call_span(&caller, job.model())).await;
    let label = outcome.as_ref().err().map_or("ok", |error| error.outcome());
    if !gateway.requests.are_cut() {
        let error = outcome.as_ref().err().map(|error| &**error);
        note_service(&gateway, &caller, &job, (made.model.as_str(), error)).await;
    }
    gateway.metrics.model_call(&caller, &made.model, label, begun.elapsed());
    if let Some(bill) = &made.bill {
        gateway.metrics.spent(&caller, &made.model, bill);
    }
    if let Err(error) = &outcome {
        tracing::warn!(
            thread = caller.thread.name_any(),
            role = caller.role_name(),
            %error,
            "model_call_failed"
        );
    }
    made.bill
}

/// Lets the Repo say whether its account and its models are served.
async fn note_service(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    job: &ModelJob,
    (model, error): (&str, Option<&ModelError>),
) {
    // A provider may refuse its search alone: what else a model is asked, it answers all the same.
    let is_search = matches!(job, ModelJob::Search(_));
    match error {
        None => gateway.conditions.model_works(&caller.repo, model).await,
        Some(ModelError::Refused(refused))
            if refused.is_for_people() && (refused.is_about_account() || !is_search) =>
        {
            let reason = if refused.is_about_account() { "Refused" } else { "ModelRefused" };
            gateway.conditions.model_fails(&caller.repo, reason, &refused.sentence).await;
        }
        Some(error @ ModelError::Barred { .. }) => {
            let why = error.to_string();
            gateway.conditions.model_fails(&caller.repo, "NotReachable", &why).await;
        }
        Some(_) => {}
    }
}

/// Tries the model that was asked for, and another one when its circuit breaks.
async fn try_models(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    job: &ModelJob,
    wanted: WantedReply,
    made: &mut MadeCall,
) -> Result<(), Arc<ModelError>> {
    let repo = RepoKey::from(&*caller.repo);
    let choose = || {
        let chosen = gateway.models.breakers.choose(
            &repo,
            job.model(),
            &caller.role.spec.model,
            Instant::now(),
        );
        if job.may_fall_back() {
            chosen
        } else {
            ChosenModel { model: job.model().to_owned(), instead_since: None }
        }
    };
    loop {
        let chosen = choose();
        made.model.clone_from(&chosen.model);
        if let Some(since) = chosen.instead_since {
            gateway.budget.report_fallback(caller, job.model(), &chosen.model, since);
        }
        let failed = || {
            gateway.models.breakers.failed(&repo, &chosen.model, Instant::now());
            choose().model == chosen.model
        };
        match Box::pin(begin_call(gateway, caller, job, &chosen.model, &failed)).await {
            Ok(begun) => {
                // Not beside what the beginning has taken: a call is large, and there are many.
                let ended = Box::pin(finish_call(gateway, caller, begun, job, wanted, made)).await;
                match ended.as_ref().err().map(|error| &**error) {
                    Some(ModelError::Unavailable { .. }) => drop(failed()),
                    _ => gateway.models.breakers.worked(&repo, &chosen.model),
                }
                return ended;
            }
            // Nothing was billed, and another model stands in now.
            Err(ModelError::Unavailable { .. }) if choose().model != chosen.model => {}
            Err(error) => {
                let error = Arc::new(error);
                let _ = wanted.send(Err(Arc::clone(&error)));
                return Err(error);
            }
        }
    }
}

/// An answer that has begun.
struct BegunAnswer<'a> {
    call: BilledCall,
    response: reqwest::Response,
    /// Time of the request.
    asked: Instant,
    prices: Option<ModelPrices>,
    estimate: NanoUsd,
    upstream: ModelUpstream<'a>,
    /// The price that counts where none is named.
    unlisted: ModelPrice,
    /// The model's id at its provider.
    id: String,
}

/// Returns the price of a model for which neither its list nor the Repo names one. Before the list
/// was asked for, it may name one.
fn unlisted_price(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    upstream: &ModelUpstream<'_>,
    routed: &RoutedModel<'_, '_>,
) -> ModelPrice {
    let has_asked = gateway.models.catalog.has_asked(&caller.repo, &routed.provider);
    if has_asked && upstream.is_free() { ModelPrice::default() } else { estimate::UNKNOWN }
}

/// Returns true if the answer is read as a stream: only so is a slow server heard of.
fn collects_answer(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    job: &ModelJob,
    asked: (&ModelUpstream<'_>, &str),
) -> bool {
    let (upstream, model) = asked;
    let key = || (RepoKey::from(&*caller.repo), model.to_owned());
    job.may_be_collected()
        && upstream.dialect == ApiDialect::Plain
        && !gateway.models.wholes.lock().contains(&key())
}

/// Returns the time that the answer may take to begin.
const fn first_patience(job: &ModelJob, collects: bool, is_internal: bool) -> Duration {
    match (job.streams(), collects || is_internal) {
        (true, false) => upstream::STREAMED,
        (false, false) => upstream::WHOLE,
        (_, true) => AnswerPatience::of(is_internal).begin,
    }
}

/// A model whose chat template leaves its tools out would answer without them, and not say so.
fn refuse_lost_tools(
    upstream: &ModelUpstream<'_>,
    job: &ModelJob,
    facts: &KnownModelFacts,
    subject: &CallSubject<'_>,
) -> Result<(), ModelError> {
    if !(facts.is_template_toolless && job.has_tools()) {
        return Ok(());
    }
    let refusal = ModelRefusal {
        verdict: AnswerVerdict::NoTools,
        after: None,
        said: "its chat template knows no tools (chat_template_caps of /props)".to_owned(),
        window: None,
    };
    Err(upstream.tell(subject, 200, refusal))
}

async fn begin_call<'a>(
    gateway: &'a ModelServices,
    caller: &ProvenCaller,
    job: &ModelJob,
    model: &str,
    failed: impl Fn() -> bool,
) -> Result<BegunAnswer<'a>, ModelError> {
    let routed = gateway.models.catalog.route(&caller.repo, model);
    let (keys, context) = (&gateway.models.keys, &gateway.context);
    let ask_where = || ModelUpstream::of(keys, context, &caller.repo, &routed.provider);
    let mut upstream = ask_where().await?;
    let mut renewed = false;
    let facts = gateway.models.catalog.facts_at(&caller.repo, &routed);
    let session = session_id(caller);
    let mut shape = RequestShape {
        dialect: upstream.dialect,
        id: routed.id,
        facts: &facts,
        role: &caller.role.spec.model,
        session: &session,
        affordable: None,
        collects: collects_answer(gateway, caller, job, (&upstream, model)),
        params: gateway.models.params.find(&caller.role.spec.model, routed.address()),
    };
    let nearest = || gateway.models.catalog.nearest(&caller.repo, model);
    let role = caller.role.name_any();
    let subject = CallSubject { model, id: routed.id, role: &role, nearest: &nearest };
    refuse_lost_tools(&upstream, job, &facts, &subject)?;
    let (content_type, body) = job.body(model, &shape).map_err(|_| ModelError::Garbled)?;
    let price = facts
        .prices
        .as_ref()
        .map(|prices| prices.at(estimate::prompt_tokens(&body), Timestamp::now()));
    let unlisted = unlisted_price(gateway, caller, &upstream, &routed);
    let first = job.estimate(&body, &shape, &price.unwrap_or(unlisted));
    let first = first + facts.prices.as_ref().map(ModelPrices::per_request).unwrap_or_default();
    let estimate = gateway.models.calibration.apply(caller, model, first);
    let mut call = open_call(gateway, caller, estimate).await?;
    let is_internal = upstream.is_internal();
    let patience = first_patience(job, shape.collects, is_internal);
    let is_native = job.is_native(shape.dialect);
    let mut question = UpstreamRequest {
        path: job.path(&shape),
        subject,
        content_type,
        body,
        patience,
        is_native,
    };
    loop {
        let asked = Instant::now();
        match upstream.ask(gateway.context.http(), &question, &mut call, &failed).await {
            Ok(response) => {
                if let Some(id) = upstream::id_of(&response) {
                    call.known_as(id);
                }
                let role = &caller.role.spec.model;
                gateway.models.params.learn(role, routed.address(), shape.params);
                let prices = facts.prices;
                let id = routed.id.to_owned();
                return Ok(BegunAnswer {
                    call,
                    response,
                    asked,
                    prices,
                    estimate,
                    upstream,
                    unlisted,
                    id,
                });
            }
            Err(error) if error.may_be_billed() => {
                call.flag();
                return Err(error);
            }
            // The Secret may have been changed since it was read.
            Err(error) if error.is_about_key() && !renewed => {
                renewed = true;
                let fresh = ask_where().await?;
                if !fresh.has_other_key(&upstream) {
                    return Err(error);
                }
                upstream = fresh;
            }
            Err(error) if shape.collects && error.is_about_streams() => {
                tracing::info!(model, %error, "model_streaming_refused");
                let key = (RepoKey::from(&*caller.repo), model.to_owned());
                gateway.models.wholes.lock().insert(key);
                shape.collects = false;
                question.patience = first_patience(job, false, is_internal);
                question.body = job.body(model, &shape).map_err(|_| ModelError::Garbled)?.1;
            }
            // Dropped, the call is taken back, unless it can be asked otherwise.
            Err(error) => {
                gateway.models.catalog.learn_window(&caller.repo, &routed, error.window());
                let asked = (&upstream, &routed, model);
                let is_stand_in = model != job.model();
                if !reshape_request(gateway, caller, asked, (&mut shape, &error), is_stand_in) {
                    return Err(error);
                }
                question.body = job.body(model, &shape).map_err(|_| ModelError::Garbled)?.1;
            }
        }
    }
}

/// Lets the call through, or says why not.
pub(crate) async fn open_call(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    estimate: NanoUsd,
) -> Result<BilledCall, ModelError> {
    match gateway.ledger.open(caller, estimate).await {
        Ok(call) => Ok(call),
        Err(OpenError::Exceeded(exceeded)) => {
            gateway.metrics.exceeded(caller, exceeded.limit);
            // The thread has to know before the role waits for its answer.
            match gateway.budget.ask_money(caller, &exceeded).await {
                Ok(sentence) => Err(ModelError::Exceeded(sentence)),
                Err(error) => {
                    tracing::warn!(%error, "budget_question_failed");
                    Err(ModelError::Unrecorded)
                }
            }
        }
        Err(error) => {
            let error = anyhow::Error::new(error);
            tracing::warn!(error = format!("{error:#}"), "model_call_blocked");
            Err(ModelError::Unrecorded)
        }
    }
}

/// Returns an id that is the same for all calls of a role in a Thread, and says nothing of either.
fn session_id(caller: &ProvenCaller) -> String {
    let ThreadKey { namespace, name } = caller.key();
    let uid = caller.thread.uid().unwrap_or_default();
    let text = format!("{uid}/{namespace}/{name}/{}", caller.role_name());
    hex::encode(Sha256::digest(text))
}

async fn finish_call(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    begun: BegunAnswer<'_>,
    job: &ModelJob,
    wanted: WantedReply,
    made: &mut MadeCall,
) -> Result<(), Arc<ModelError>> {
    let BegunAnswer { mut call, response, asked, prices, estimate, upstream, unlisted, id } = begun;
    let search = upstream.dialect.search_price();
    let terms = CallTerms { prices: prices.as_ref(), unlisted, estimate, search };
    if job.streams() {
        let (pieces, reader) = mpsc::channel(BUFFER);
        let reader = wanted.send(Ok(ModelReply::Stream(reader))).is_ok().then_some(pieces);
        let EndedStream { tap, outcome } = stream::pump_stream(response, reader, &mut call).await;
        step::point("after answer");
        match tap.bill() {
            Some(bill) => {
                made.bill = Some(charge_call(gateway, caller, call, bill, &terms, made));
            }
            None => call.flag(),
        }
        return outcome.map_err(Arc::new);
    }
    let patience = AnswerPatience::of(upstream.is_internal());
    let slow = upstream.slow_model(&made.model, &id);
    let how = (asked, &patience, &slow);
    let outcome = answer::read_whole(response, job, how, &mut call).await;
    step::point("after answer");
    let told = match outcome {
        Ok(ReadAnswer { answer, bill, failure, is_uncounted }) => {
            made.provider = billing::find_provider(&answer);
            match answer::of_bill(bill.as_ref(), failure.is_some()) {
                // Some count the tokens of whole answers alone: the next one is asked for so.
                GrantEnd::Settle(_) if is_uncounted => {
                    if !billing::breaks_off(&answer) {
                        let key = (RepoKey::from(&*caller.repo), made.model.clone());
                        gateway.models.wholes.lock().insert(key);
                    }
                    call.flag();
                }
                GrantEnd::Settle(bill) => {
                    made.bill = Some(charge_call(gateway, caller, call, bill, &terms, made));
                }
                // It says that nothing was answered, and nothing of a bill.
                GrantEnd::TakeBack => drop(call_refused(call)),
                GrantEnd::Flag => call.flag(),
            }
            let completed = bill.is_some_and(|bill| bill.completed);
            match failure {
                Some(complaint) => {
                    let nearest = || gateway.models.catalog.nearest(&caller.repo, &made.model);
                    let role = caller.role.name_any();
                    let subject =
                        CallSubject { model: &made.model, id: &id, role: &role, nearest: &nearest };
                    let status = complaint.status.unwrap_or(200);
                    let refusal = classify_inner(complaint, Timestamp::now());
                    let error = upstream.tell(&subject, status, refusal);
                    let catalog = &gateway.models.catalog;
                    let routed = catalog.route(&caller.repo, &made.model);
                    catalog.learn_window(&caller.repo, &routed, error.window());
                    Err(error)
                }
                None if completed => Ok(answer),
                None => Err(ModelError::Garbled),
            }
        }
        Err(error) => {
            match error.bill() {
                Some(bill) => {
                    made.bill = Some(charge_call(gateway, caller, call, bill, &terms, made));
                }
                None => call.flag(),
            }
            Err(error)
        }
    };
    let told = told.map_err(Arc::new);
    let result = told.as_ref().map(drop).map_err(Arc::clone);
    let instead = (made.model != job.model()).then(|| made.model.clone());
    let _ = wanted.send(told.map(|answer| ModelReply::Whole { answer, instead }));
    result
}

fn call_refused(mut call: BilledCall) -> BilledCall {
    call.refused();
    call
}
