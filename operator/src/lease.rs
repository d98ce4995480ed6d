//! A Lease: at most one replica holds it, and everybody can see who.
//!
//! [`start`] campaigns in the background; [`Lease`] says how it stands. Every write carries the
//! version that it was decided on, so that of two candidates one gets a conflict. The holder counts
//! from before its last successful request, everybody else from after they saw the record change:
//! whatever clocks and networks do, the old holder knows that it lost before a new one begins.
//!
//! Who lost the lease has to stop at once; once nothing of its work is left, it [`start`]s another
//! campaign. Who shuts down ends its work first and then calls [`Lease::release`], and the next one
//! need not wait.

mod campaign;
mod record;
mod store;
mod time;

#[cfg(test)]
mod tests;

use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::campaign::Campaign;
use self::store::Kubernetes;
use self::time::System;

/// How long giving up may take.
pub const GIVE_UP: Duration = Duration::from_secs(2);

/// Which lease, who asks, and how patient everybody is.
#[derive(Clone, Debug)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    /// Who asks: no two processes that live at the same time may share one. A process that is
    /// started again under the same identity goes on with its predecessor's lease at once.
    pub identity: String,
    /// How long others wait for a holder that is not heard of. Whole seconds, at least 3.
    pub duration: Duration,
}

impl Settings {
    /// How long after its last successful renewal a holder may act: of 15 seconds 10, as client-go has
    /// it.
    fn deadline(&self) -> Duration {
        self.duration * 2 / 3
    }

    /// Time between renewals.
    fn interval(&self) -> Duration {
        self.duration / 4
    }

    /// Time between two looks of a candidate, before jitter.
    fn retry(&self) -> Duration {
        (self.duration / 4).min(Duration::from_secs(1))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Somebody else holds the lease, or nobody yet.
    Waiting,
    Held,
    /// We held it and don't any more: others may act already. The end of this campaign.
    Lost,
}

/// A running campaign. Dropping it stops renewing without a word, as a crash would.
#[derive(Debug)]
pub struct Lease {
    leadership: watch::Receiver<Leadership>,
    resign: CancellationToken,
    task: AbortOnDropHandle<()>,
}

pub fn start(client: Client, settings: Settings) -> Lease {
    let store = Kubernetes::new(client, &settings);
    let (campaign, leadership, resign) = Campaign::new(store, System, settings);
    Lease { leadership, resign, task: AbortOnDropHandle::new(tokio::spawn(campaign.run())) }
}

impl Lease {
    /// A view on how it stands, for whoever else has to know.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    /// Waits until the lease is held. Pends for ever if it was held and lost meanwhile.
    pub async fn held(&self) {
        until(self.leadership(), Leadership::Held).await;
    }

    /// Waits until the lease is lost.
    pub async fn lost(&self) {
        until(self.leadership(), Leadership::Lost).await;
    }

    /// Stops campaigning and gives the lease up, if it is held. To be called when the work that it
    /// guards has ended; returns within two seconds.
    pub async fn release(self) {
        self.resign.cancel();
        // It fails only if the task panicked, and then there is nothing to give up.
        let _ = self.task.await;
    }
}

async fn until(mut leadership: watch::Receiver<Leadership>, wanted: Leadership) {
    if leadership.wait_for(|now| *now == wanted).await.is_err() {
        // The campaign ended otherwise.
        std::future::pending::<()>().await;
    }
}
