//! Who may make one more call now.

use axum::extract::FromRequestParts;
use codebutler_crds::wire::ErrorCode;
use http::request::Parts;

use super::flights::{CallSlot, MOST};
use crate::gateway::api_error::ApiError;
use crate::gateway::caller::ProvenCaller;
use crate::gateway::extract::OpenCaller;
use crate::gateway::state::SharedGateway;

/// A caller that may make one more call. Before its request's body is read.
pub struct AdmittedCaller(pub ProvenCaller, pub CallSlot);

impl FromRequestParts<SharedGateway> for AdmittedCaller {
    type Rejection = ApiError;
    async fn from_request_parts(
        parts: &mut Parts,
        gateway: &SharedGateway,
    ) -> Result<Self, ApiError> {
        let OpenCaller(caller) = OpenCaller::from_request_parts(parts, gateway).await?;
        let role = (caller.key(), caller.role_name().to_owned());
        let place = gateway.models.flights.place(role).await.ok_or_else(|| {
            let message =
                format!("{MOST} model calls of this role are under way: wait for one to end");
            ApiError::new(ErrorCode::Unavailable, message)
        })?;
        Ok(Self(caller, place))
    }
}
