//! A Lease: at most one replica holds it, and everybody can see who.
//!
//! [`start_campaign`] campaigns in the background; [`LeaseHandle`] says how it stands. Every write carries the
//! version that it was decided on, so that of two candidates one gets a conflict. The holder counts
//! from before its last successful request, everybody else from after they saw the record change:
//! whatever clocks and networks do, the old holder knows that it lost before a new one begins.
//!
//! Who lost the lease has to stop at once; once nothing of its work is left, it begins another
//! campaign. Who shuts down ends its work first and then calls [`LeaseHandle::release`], and the
//! next one need not wait.

mod campaign;
mod record;
mod settings;
mod store;
mod time;

#[cfg(test)]
mod tests;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::campaign::LeaseCampaign;
pub use self::settings::{GIVE_UP, LeadershipState, LeaseSettings};
use self::store::LeaseObjects;
use self::time::SystemTimer;

/// A running campaign. Dropping it stops renewing without a word, as a crash would.
#[derive(Debug)]
pub struct LeaseHandle {
    leadership: watch::Receiver<LeadershipState>,
    resign: CancellationToken,
    task: AbortOnDropHandle<()>,
}

pub fn start_campaign(client: Client, settings: LeaseSettings) -> LeaseHandle {
    let store = LeaseObjects::new(client, &settings);
    let (campaign, leadership, resign) = LeaseCampaign::new(store, SystemTimer, settings);
    LeaseHandle { leadership, resign, task: AbortOnDropHandle::new(tokio::spawn(campaign.run())) }
}

impl LeaseHandle {
    /// A view on how it stands, for whoever else has to know.
    pub fn leadership(&self) -> watch::Receiver<LeadershipState> {
        self.leadership.clone()
    }

    /// Waits until the lease is held. Pends for ever if it was held and lost meanwhile.
    pub async fn held(&self) {
        await_leadership(self.leadership(), LeadershipState::Held).await;
    }

    /// Waits until the lease is lost.
    pub async fn lost(&self) {
        await_leadership(self.leadership(), LeadershipState::Lost).await;
    }

    /// Stops campaigning and gives the lease up, if it is held. To be called when the work that it
    /// guards has ended; returns within two seconds.
    pub async fn release(self) {
        self.resign.cancel();
        // It fails only if the task panicked, and then there is nothing to give up.
        let _ = self.task.await;
    }
}

async fn await_leadership(
    mut leadership: watch::Receiver<LeadershipState>,
    wanted: LeadershipState,
) {
    if leadership.wait_for(|now| *now == wanted).await.is_err() {
        // The campaign ended otherwise.
        std::future::pending::<()>().await;
    }
}
