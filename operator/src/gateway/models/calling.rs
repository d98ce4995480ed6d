//! Who may make one more call now.

use axum::extract::FromRequestParts;
use codebutler_crds::wire::ErrorCode;
use http::request::Parts;

use super::flights::{MOST, Place};
use crate::gateway::api_error::ApiError;
use crate::gateway::caller::Caller;
use crate::gateway::extract::Open;
use crate::gateway::state::Shared;

/// A caller that may make one more call. Before its request's body is read.
pub struct Calling(pub Caller, pub Place);

impl FromRequestParts<Shared> for Calling {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, gateway: &Shared) -> Result<Self, ApiError> {
        let Open(caller) = Open::from_request_parts(parts, gateway).await?;
        let role = (caller.key(), caller.role_name().to_owned());
        let place = gateway.models.flights.place(role).await.ok_or_else(|| {
            let message =
                format!("{MOST} model calls of this role are under way: wait for one to end");
            ApiError::new(ErrorCode::Unavailable, message)
        })?;
        Ok(Self(caller, place))
    }
}
