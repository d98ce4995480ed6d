//! Starts of sessions that take more than one attempt.

use codebutler_mcp::session::DeclaredCapabilities;

use super::{SessionPool, SessionUse};
use crate::link::LinkError;
use crate::place::ServerPlace;

impl SessionPool {
    /// A program that refuses what this client declares is started once more, and told less. One that knows no
    /// `initialize` is started once more without it. Remote servers are asked again over the same link.
    pub(super) async fn connect(&self, place: &ServerPlace) -> Result<SessionUse, LinkError> {
        let (mut declares, mut first) = (DeclaredCapabilities::All, None);
        loop {
            let is_stateless = first.is_some();
            let connecting = self.connect_once(place, declares, is_stateless);
            let error = match Box::pin(connecting).await {
                Err(LinkError::Server(error)) if place.spec.image.is_some() => error,
                connected => return connected,
            };
            if let Some(plainer) = declares.plainer().filter(|_| error.refuses_capabilities()) {
                declares = plainer;
            } else if !is_stateless && error.may_be_stateless() {
                first = Some(error);
            } else {
                // The answer to the first greeting is the better reason.
                return Err(LinkError::Server(first.unwrap_or(error)));
            }
        }
    }
}
