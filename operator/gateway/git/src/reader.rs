//! Readers of a Repo's repository: a role, or a pod that waits to become one.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use codebutler_crds::{Repo, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::{ProvenCaller, ProvenSeat};
use codebutler_gateway_core::extract::{CallerGate, OpenCaller};
use codebutler_gateway_core::thread_key::ThreadKey;
use http::request::Parts;

/// Caller of a fetch, and with it the branches that it may see.
pub enum GitReader {
    /// A role: all but the branches of other Threads.
    Role(Box<ProvenCaller>),
    /// A seat that no Thread has taken: all but the branches of Threads.
    Seat(ProvenSeat),
}

impl<S> FromRequestParts<S> for GitReader
where
    Arc<CallerGate>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let gate = Arc::<CallerGate>::from_ref(state);
        if gate.identity.claims_seat(&parts.headers) {
            return Box::pin(gate.identity.seat(&parts.headers)).await.map(Self::Seat);
        }
        OpenCaller::from_request_parts(parts, state)
            .await
            .map(|OpenCaller(role)| Self::Role(Box::new(role)))
    }
}

impl GitReader {
    pub fn repo(&self) -> &Arc<Repo> {
        match self {
            Self::Role(caller) => &caller.repo,
            Self::Seat(seat) => &seat.repo,
        }
    }

    /// The key of its share of the readers' places.
    pub fn key(&self) -> ThreadKey {
        match self {
            Self::Role(caller) => caller.key(),
            Self::Seat(seat) => seat.key(),
        }
    }

    /// The one branch of Threads that it sees: a seat's never exists.
    pub fn branch(&self) -> String {
        names::branch_name(&self.key().name)
    }
}
