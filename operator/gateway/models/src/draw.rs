//! Images for a role: with the model that makes them for it, within its budget and on its account.

use std::sync::Arc;

use bytes::Bytes;
use codebutler_crds::NanoUsd;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::estimate;
use jiff::Timestamp;
use kube::ResourceExt as _;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::call::{self, ModelReply};
use super::dialect::ApiDialect;
use super::drawing::{DrawingJob, read_images};
pub use super::drawing::{DrawingOrder, SentImage};
use super::job::ModelJob;
use super::services::ModelServices;

/// An order, and what it takes.
pub struct PlannedDrawing {
    /// The model that makes the images.
    pub model: String,
    /// Estimated cost of the images.
    pub estimate: NanoUsd,
    jobs: Vec<DrawingJob>,
}

impl PlannedDrawing {
    /// Makes a plan to ask people about before anything is planned: a model and its estimate,
    /// without jobs.
    pub fn at(model: &str, estimate: NanoUsd) -> Self {
        Self { model: model.to_owned(), estimate, jobs: Vec::new() }
    }
}

/// Images that a model made.
#[derive(Debug, Default)]
pub struct MadeImages {
    pub images: Vec<Bytes>,
    pub cost: NanoUsd,
    /// Reason why there are fewer images than were wanted.
    pub failure: Option<ApiError>,
}

/// Finds the model for an order, and what the order costs.
///
/// # Errors
/// When the role has no model that makes images.
pub fn plan_drawing(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    order: &DrawingOrder,
) -> Result<PlannedDrawing, ApiError> {
    let model = caller.role.spec.model.image.clone().ok_or_else(|| {
        let message = format!(
            "no image can be made: spec.model.image of AgentRole `{}` names no model that makes them. A person has to set \
             it; until then describe in words what you would draw",
            caller.role.name_any()
        );
        ApiError::new(ErrorCode::Forbidden, message)
    })?;
    let catalog = &gateway.models.catalog;
    let routed = catalog.route(&caller.repo, &model);
    let facts = catalog.facts_at(&caller.repo, &routed);
    let prices = facts.prices.as_ref();
    let price = prices.map_or(estimate::UNKNOWN, |prices| prices.at(0, Timestamp::now()));
    let jobs = DrawingJob::split(&model, ApiDialect::of(&routed.provider), order);
    let estimate = jobs.iter().map(|job| job.estimate(&price)).sum();
    Ok(PlannedDrawing { model, estimate, jobs })
}

/// Has the images made. What was made before a failure is kept: it is paid for.
pub async fn make_images(
    gateway: &Arc<ModelServices>,
    caller: &ProvenCaller,
    planned: PlannedDrawing,
) -> MadeImages {
    let mut made = MadeImages::default();
    for job in planned.jobs {
        let most = usize::from(job.order.count);
        let (answer, cost) = make_one(gateway, caller, job).await;
        made.cost += cost;
        let images = answer.and_then(|answer| {
            read_images(&answer, most)
                .map_err(|error| ApiError::new(ErrorCode::ContentRefused, error.to_string()))
        });
        match images {
            Ok(images) => made.images.extend(images),
            Err(error) => {
                made.failure = Some(error);
                break;
            }
        }
    }
    made
}

async fn make_one(
    gateway: &Arc<ModelServices>,
    caller: &ProvenCaller,
    job: DrawingJob,
) -> (Result<Bytes, ApiError>, NanoUsd) {
    let (reply, answered) = oneshot::channel();
    let making =
        call::make_call(Arc::clone(gateway), caller.clone(), ModelJob::Drawing(job), reply);
    let task = gateway.answers.spawn(making.in_current_span());
    let answer = match answered.await {
        Ok(Ok(ModelReply::Whole { answer, .. })) => Ok(answer),
        Ok(Ok(ModelReply::Stream(_))) => {
            Err(ApiError::new(ErrorCode::Unanswered, "the provider answered in pieces"))
        }
        Ok(Err(error)) => Err(ApiError::new(error.code(), error.to_string())),
        Err(_) => Err(ApiError::new(ErrorCode::Unanswered, "the gateway lost the call")),
    };
    let bill = task.await.ok().flatten().flatten();
    (answer, bill.map(|bill| bill.usage.cost).unwrap_or_default())
}
