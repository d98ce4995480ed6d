//! Admits a caller to one more model call.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{CallerGate, OpenCaller};
use http::request::Parts;

use super::flights::{CallSlot, MOST};
use crate::services::ModelServices;

/// A caller that may make one more call. Before its request's body is read.
pub struct AdmittedCaller(pub ProvenCaller, pub CallSlot);

impl<S> FromRequestParts<S> for AdmittedCaller
where
    Arc<CallerGate>: FromRef<S>,
    Arc<ModelServices>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let OpenCaller(caller) = OpenCaller::from_request_parts(parts, state).await?;
        let role = (caller.key(), caller.role_name().to_owned());
        let place =
            Arc::<ModelServices>::from_ref(state).models.flights.place(role).await.ok_or_else(
                || {
                    let message = format!(
                        "{MOST} model calls of this role are under way: wait for one to end"
                    );
                    ApiError::new(ErrorCode::Unavailable, message)
                },
            )?;
        Ok(Self(caller, place))
    }
}
