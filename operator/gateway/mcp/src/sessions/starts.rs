//! Starts of sessions that take more than one attempt, and programs that have to be started anew.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use codebutler_mcp::session::DeclaredCapabilities;
use jiff::{SignedDuration, Timestamp};

use super::{SessionPool, SessionUse};
use crate::link::LinkError;
use crate::session_key::ServerPlace;

/// A remote server that fails so soon is asked once more, after a pause.
const MOMENT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(300);
/// Time that a program without a call has to answer a ping.
const PING: Duration = Duration::from_secs(10);
/// A program that has answered is not asked again so soon.
const PROVEN: Duration = Duration::from_secs(30);

impl SessionPool {
    /// One failure of a remote server is no news, as in a look: it is asked once more before it counts as away.
    pub(super) async fn connect_surely(
        &self,
        place: &ServerPlace,
    ) -> Result<SessionUse, LinkError> {
        let begun = Instant::now();
        match self.connect(place).await {
            Err(LinkError::Server(error))
                if place.spec.url.is_some() && begun.elapsed() < MOMENT =>
            {
                tracing::info!(server = place.spec.name, %error, "server_connection_retried");
                tokio::time::sleep(PAUSE).await;
                self.connect(place).await
            }
            connected => connected,
        }
    }

    /// A program that refuses what this client declares is started once more, and told less. One that knows no
    /// `initialize` is started once more without it. Remote servers are asked again over the same link.
    async fn connect(&self, place: &ServerPlace) -> Result<SessionUse, LinkError> {
        if self.was_used_elsewhere(place) {
            self.0.state.lock().lost.insert(place.key.clone(), ());
        }
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

    /// True where a Thread's own server was in use a moment ago, by the gateway before this one: the program ended with
    /// the session.
    fn was_used_elsewhere(&self, place: &ServerPlace) -> bool {
        let own = place.thread.as_ref().filter(|_| place.key.thread.is_some());
        let Some(thread) = own.and_then(|own| self.0.context.thread(own)) else { return false };
        let known = thread.status.as_ref().and_then(|status| status.mcp.as_ref());
        let Some(known) = known.and_then(|mcp| mcp.servers.get(&place.spec.name)) else {
            return false;
        };
        let wanted = known.pod.as_ref().and_then(|pod| pod.wanted.as_ref());
        let idle = SignedDuration::from_secs(place.spec.idle_seconds.into());
        known.calls > 0 && wanted.is_some_and(|at| Timestamp::now().duration_since(at.0) < idle)
    }

    /// False for a program in a pod that works on no call and leaves a ping unanswered: it hangs. One that works on a
    /// call, or writes its list, may be busy with it, and many answer nothing else meanwhile.
    pub(super) async fn is_answering(&self, open: &SessionUse) -> bool {
        let session = &open.0;
        // A list that has changed is read by nobody's call.
        let is_busy =
            session.running.load(Ordering::SeqCst) > 1 || session.listing.try_lock().is_err();
        if session.pod.is_none() || is_busy || session.proven.lock().elapsed() < PROVEN {
            return true;
        }
        let answers = Box::pin(session.session.answers_ping(PING)).await;
        if answers {
            *session.proven.lock() = Instant::now();
        }
        answers
    }
}
