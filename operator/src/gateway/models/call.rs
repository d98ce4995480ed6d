//! One call from its estimate to its settlement.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use codebutler_crds::NanoUsd;
use codebutler_crds::limits::Price;
use kube::ResourceExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::billing::{self, Bill};
use super::breaker::Chosen;
use super::job::Job;
use super::stream::{self, BUFFER, Ended};
use super::upstream::{self, ModelError, Question, Upstream};
use crate::gateway::api::Shared;
use crate::gateway::budget::repos::RepoKey;
use crate::gateway::budget::{Call, OpenError, estimate, pause};
use crate::gateway::context::Caller;
use crate::step;

/// What the agent gets.
pub enum Reply {
    /// All of it.
    Whole(Bytes),
    /// Piece by piece.
    Stream(mpsc::Receiver<Result<Bytes, Infallible>>),
}

/// Where the reply is wanted.
pub type Wanted = oneshot::Sender<Result<Reply, Arc<ModelError>>>;

/// What a call came to, for metrics.
struct Made {
    model: String,
    bill: Option<Bill>,
}

/// Makes a call, whether or not anybody still waits for it.
pub async fn make(gateway: Shared, caller: Caller, job: Job, wanted: Wanted) {
    let begun = Instant::now();
    let mut made = Made { model: job.model().to_owned(), bill: None };
    let outcome = Box::pin(tried(&gateway, &caller, &job, wanted, &mut made)).await;
    let label = outcome.as_ref().err().map_or("ok", |error| error.outcome());
    gateway.metrics.model_call(&caller, &made.model, label, begun.elapsed());
    if let Some(bill) = &made.bill {
        gateway.metrics.spent(&caller, &made.model, bill);
    }
    if let Err(error) = &outcome {
        tracing::warn!(
            thread = caller.thread.name_any(),
            role = caller.role_name(),
            %error,
            "a model call failed"
        );
    }
}

/// Tries the model that was asked for, and another one when its circuit breaks.
async fn tried(
    gateway: &Shared,
    caller: &Caller,
    job: &Job,
    wanted: Wanted,
    made: &mut Made,
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
            Chosen { model: job.model().to_owned(), instead_since: None }
        }
    };
    loop {
        let chosen = choose();
        made.model.clone_from(&chosen.model);
        if let Some(since) = chosen.instead_since {
            pause::tell_fallback(gateway, caller, job.model(), &chosen.model, since);
        }
        let failed = || {
            gateway.models.breakers.failed(&repo, &chosen.model, Instant::now());
            choose().model == chosen.model
        };
        match Box::pin(begin(gateway, caller, job, &chosen.model, failed)).await {
            Ok(begun) => {
                gateway.models.breakers.worked(&repo, &chosen.model);
                // Not beside what the beginning has taken: a call is large, and there are many.
                return Box::pin(finish(gateway, caller, begun, job, wanted, made)).await;
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
struct Begun {
    call: Call,
    response: reqwest::Response,
    price: Option<Price>,
    estimate: NanoUsd,
}

async fn begin(
    gateway: &Shared,
    caller: &Caller,
    job: &Job,
    model: &str,
    failed: impl Fn() -> bool,
) -> Result<Begun, ModelError> {
    let price = caller.repo.spec.model.prices.get(model).copied();
    let upstream = Upstream::of(&gateway.models.keys, &gateway.context, &caller.repo).await?;
    let (content_type, body) =
        job.body(model, upstream.dialect).map_err(|_| ModelError::Garbled)?;
    let first = job.estimate(&body, &price.unwrap_or(estimate::UNKNOWN));
    let estimate = gateway.models.calibration.apply(caller, model, first);
    let mut call = match gateway.ledger.open(caller, estimate).await {
        Ok(call) => call,
        Err(OpenError::Exceeded(exceeded)) => {
            gateway.metrics.exceeded(caller, exceeded.limit);
            // The thread has to know before the role waits for its answer.
            return match pause::ask(gateway, caller, &exceeded).await {
                Ok(sentence) => Err(ModelError::Exceeded(sentence)),
                Err(error) => {
                    tracing::warn!(%error, "the thread could not be asked for more money");
                    Err(ModelError::Unrecorded)
                }
            };
        }
        Err(error) => {
            let error = anyhow::Error::new(error);
            tracing::warn!(error = format!("{error:#}"), "a call was not let through");
            return Err(ModelError::Unrecorded);
        }
    };
    let stream = job.streams();
    let question = Question { path: job.path(), model, content_type, body, stream };
    match upstream.ask(&gateway.http, &question, &mut call, failed).await {
        Ok(response) => {
            if let Some(id) = upstream::id_of(&response) {
                call.known_as(id);
            }
            Ok(Begun { call, response, price, estimate })
        }
        Err(ModelError::Lost) => {
            call.flag();
            Err(ModelError::Lost)
        }
        // Dropped, the call is taken back.
        Err(error) => Err(error),
    }
}

async fn finish(
    gateway: &Shared,
    caller: &Caller,
    begun: Begun,
    job: &Job,
    wanted: Wanted,
    made: &mut Made,
) -> Result<(), Arc<ModelError>> {
    let Begun { mut call, response, price, estimate } = begun;
    if job.streams() {
        let (pieces, reader) = mpsc::channel(BUFFER);
        let reader = wanted.send(Ok(Reply::Stream(reader))).is_ok().then_some(pieces);
        let Ended { tap, outcome } = stream::pump(response, reader, &mut call).await;
        step::point("after answer");
        match tap.bill.map(|bill| Bill { images: bill.images.max(tap.images), ..bill }) {
            Some(bill) => {
                made.bill =
                    Some(settle(gateway, caller, call, bill, price, (estimate, &made.model)));
            }
            None => call.flag(),
        }
        return outcome.map_err(Arc::new);
    }
    let outcome = whole(response, job, &mut call).await;
    step::point("after answer");
    let told = match outcome {
        Ok((answer, bill)) => {
            let bill = settle(gateway, caller, call, bill, price, (estimate, &made.model));
            made.bill = Some(bill);
            if bill.completed { Ok(answer) } else { Err(ModelError::Garbled) }
        }
        // It says that nothing was answered, and nothing of a bill.
        Err(Unbilled::Failure) => {
            drop(call_refused(call));
            Err(ModelError::Garbled)
        }
        Err(Unbilled::Unknown(error)) => {
            call.flag();
            Err(error)
        }
    };
    let told = told.map_err(Arc::new);
    let result = told.as_ref().map(drop).map_err(Arc::clone);
    let _ = wanted.send(told.map(Reply::Whole));
    result
}

fn call_refused(mut call: Call) -> Call {
    call.refused();
    call
}

enum Unbilled {
    Failure,
    Unknown(ModelError),
}

async fn whole(
    response: reqwest::Response,
    job: &Job,
    call: &mut Call,
) -> Result<(Bytes, Bill), Unbilled> {
    let collected = std::pin::pin!(upstream::collect(response));
    let answer = stream::lasting(collected, || call.lasts()).await.map_err(Unbilled::Unknown)?;
    let bill = billing::read(&answer).ok_or(Unbilled::Unknown(ModelError::Garbled))?;
    if !bill.completed && !bill.priced {
        return Err(Unbilled::Failure);
    }
    let bill = match job {
        // Who says nothing of the length is billed by the bytes.
        Job::Speech(recording) if bill.seconds.is_none() => {
            let bytes = u64::try_from(recording.sound.len()).unwrap_or(u64::MAX);
            Bill { seconds: Some(estimate::seconds(bytes)), ..bill }
        }
        _ => bill,
    };
    Ok((answer, bill))
}

fn settle(
    gateway: &Shared,
    caller: &Caller,
    call: Call,
    bill: Bill,
    price: Option<Price>,
    (estimate, model): (NanoUsd, &str),
) -> Bill {
    let bill = bill.at(price.as_ref());
    if !bill.priced {
        tracing::warn!(
            repo = caller.repo.name_any(),
            model,
            "the provider names no cost and spec.model.prices has none: its calls count as 0 USD"
        );
    }
    gateway.models.calibration.learn(caller, model, estimate, bill.usage.cost);
    for near in call.settle(caller, bill.usage) {
        pause::tell_near(gateway, caller, near);
    }
    bill
}

/// By how much estimates were too low, by model: what was billed once may be billed again.
#[derive(Default)]
pub struct Calibration {
    /// Thousandths.
    factors: Mutex<HashMap<(RepoKey, String), u64>>,
}

impl Calibration {
    fn apply(&self, caller: &Caller, model: &str, estimate: NanoUsd) -> NanoUsd {
        let factors = self.factors.lock().unwrap_or_else(PoisonError::into_inner);
        let known = factors.get(&(RepoKey::from(&*caller.repo), model.to_owned()));
        estimate.times(known.copied().unwrap_or(ONE), ONE)
    }

    fn learn(&self, caller: &Caller, model: &str, estimate: NanoUsd, billed: NanoUsd) {
        if billed > estimate {
            let mut factors = self.factors.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (RepoKey::from(&*caller.repo), model.to_owned());
            let factor = factors.entry(key).or_insert(ONE);
            *factor = grown(*factor, estimate, billed);
        }
    }
}

/// Estimates are multiplied by so many thousandths.
const ONE: u64 = 1000;
/// A single odd figure is not to block a model for ever.
const MOST: u64 = 100 * ONE;

fn grown(factor: u64, estimate: NanoUsd, billed: NanoUsd) -> u64 {
    let grown = u128::from(factor) * u128::from(billed.0);
    u64::try_from(grown.div_ceil(u128::from(estimate.0.max(1)))).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_that_was_too_low_grows() {
        assert_eq!(grown(ONE, NanoUsd(1_000), NanoUsd(2_500)), 2_500);
        assert_eq!(grown(2_500, NanoUsd(2_500), NanoUsd(3_000)), 3_000);
        assert_eq!(grown(ONE, NanoUsd(1), NanoUsd(u64::MAX)), MOST);
        assert_eq!(grown(ONE, NanoUsd(0), NanoUsd(1)), ONE);
    }
}
