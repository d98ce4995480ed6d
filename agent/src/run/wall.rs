//! Checks that the cluster confines the pod to the gateway. Nothing of the toolbox runs before that is known: network
//! plugins close a pod's ways out a moment after its start, or never.
//!
//! Every attempt dials anew, so a wall that comes late is noticed by the pod that missed it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_wire::{EgressReport, EgressTrial, ErrorCode, RoleSession};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::args::RunArgs;
use crate::egress::EgressWays;
use crate::gateway::{GatewayClient, GatewayError};

/// Interval of checks while the confinement may still be coming up.
const STEP: Duration = Duration::from_millis(250);
/// Retry budget for a Repo that can't be worked with, and the pause between attempts.
const REPO_PATIENCE: Duration = Duration::from_mins(10);
const REPO_PAUSE: Duration = Duration::from_secs(5);
/// Interval of the looks of a pod that waits for a Thread, and validity of what it saw: nothing else of its network
/// changes when it is taken.
const LOOK_AHEAD: Duration = Duration::from_mins(1);
const COUNTS: Duration = Duration::from_mins(2);
/// Multiple of its grace period after which one pod's report alone counts.
const OVERDUE: u32 = 3;

/// Network confinement of the pod to the gateway, and its check.
#[derive(Clone)]
pub(super) struct EgressWall {
    gateway: GatewayClient,
    /// Addresses to try; a platform that names none leaves nothing to try.
    ways: Option<EgressWays>,
    grace: Duration,
    ahead: SeenWall,
}

impl EgressWall {
    pub(super) fn new(gateway: GatewayClient, args: &RunArgs) -> Self {
        let api_server = args.forbidden_host.map(|ip| SocketAddr::new(ip, args.forbidden_port));
        let (node, dns) = (args.forbidden_node, &args.forbidden_dns);
        let inside = args.gateway_address;
        let ways = api_server.map(|address| EgressWays::new(inside, address, node, dns));
        let grace = Duration::from_secs(args.wall_grace);
        Self { gateway, ways, grace, ahead: SeenWall::default() }
    }

    /// Checks repeatedly while no Thread can be told, so that a Thread that takes the pod waits for no check.
    pub(super) async fn look_ahead(&self) -> Infallible {
        let Some(ways) = &self.ways else { return std::future::pending().await };
        let began = Instant::now();
        loop {
            let stands = ways.reached().await.is_empty();
            self.ahead.note(stands, Instant::now());
            let may_come = !stands && began.elapsed() < self.grace;
            sleep(if may_come { STEP } else { LOOK_AHEAD }).await;
        }
    }

    /// Returns once a look ahead has found that nothing but the gateway can be reached; at once where there is nothing
    /// to try.
    pub(super) async fn stands_ahead(&self) {
        while self.ways.is_some() && !self.ahead.stands(Instant::now()) {
            sleep(STEP).await;
        }
    }

    /// Waits until the gateway lets the pod work: because nothing else can be reached, or because
    /// the Repo does not mind. It tells people what has to be fixed.
    pub(super) async fn stands(&self) -> Result<(), GatewayError> {
        let Some(mut looks) = self.looks() else { return Ok(()) };
        let mut seen = self.ahead.stands(Instant::now()).then(kept_in);
        loop {
            let ahead = seen.is_some();
            let report = match seen.take() {
                Some(report) => report,
                None => looks.next().await,
            };
            match self.gateway.egress(&report).await {
                Ok(()) => {
                    // A finding from before a Thread took the pod is checked again while its role begins.
                    if report.reached || ahead {
                        tokio::spawn(looks.watch(self.gateway.clone()));
                    }
                    return Ok(());
                }
                Err(error) if is_waiting(&error) && looks.began.elapsed() < REPO_PATIENCE => {
                    tracing::warn!(ways = ?report.ways, "egress_unenforced");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The session. Waits for a while for people to fix a Repo that can't be worked with: the gateway
    /// has told them. What other pods found is no reason to wait for one that is kept in.
    pub(super) async fn session(&self) -> Result<RoleSession, GatewayError> {
        let deadline = Instant::now() + REPO_PATIENCE;
        loop {
            match self.gateway.session().await {
                Err(error) if is_waiting(&error) && Instant::now() < deadline => {
                    tracing::warn!(%error, "repo_unusable");
                }
                other => return other,
            }
            sleep(REPO_PAUSE).await;
            if let Some(mut looks) = self.looks() {
                let told = self.gateway.egress(&looks.next().await).await;
                let _ = told.inspect_err(|error| tracing::debug!(%error, "egress_report_failed"));
            }
        }
    }

    fn looks(&self) -> Option<WallChecks> {
        let ways = self.ways.clone()?;
        Some(WallChecks { ways, grace: self.grace, began: Instant::now(), told: None })
    }
}

/// Time at which a waiting pod found that nothing can be reached. Clones share it.
#[derive(Clone, Default)]
struct SeenWall(Arc<Mutex<Option<Instant>>>);

impl SeenWall {
    /// Records a check: one that found a way out takes back the finding before it.
    fn note(&self, stands: bool, now: Instant) {
        *self.0.lock() = stands.then_some(now);
    }

    fn stands(&self, now: Instant) -> bool {
        self.0.lock().is_some_and(|at| now.saturating_duration_since(at) < COUNTS)
    }
}

/// Report of a pod that can reach nothing.
fn kept_in() -> EgressReport {
    EgressReport { reached: false, ways: BTreeSet::new(), trial: EgressTrial::Begun }
}

/// True for a refusal that lasts until somebody fixes something.
fn is_waiting(error: &GatewayError) -> bool {
    error.code() == Some(ErrorCode::Upstream)
}

/// Repeated checks of the network confinement, until it holds.
struct WallChecks {
    ways: EgressWays,
    grace: Duration,
    began: Instant,
    told: Option<(Instant, EgressReport)>,
}

impl WallChecks {
    /// Waits for the next report: a change, or the same finding after a while.
    async fn next(&mut self) -> EgressReport {
        loop {
            let ways = self.ways.reached().await;
            let report = EgressReport { reached: !ways.is_empty(), ways, trial: self.trial() };
            let known =
                |(at, told): &(Instant, EgressReport)| *told == report && at.elapsed() < REPO_PAUSE;
            if !self.told.as_ref().is_some_and(known) {
                self.told = Some((Instant::now(), report.clone()));
                return report;
            }
            sleep(if report.trial == EgressTrial::Overdue { REPO_PAUSE } else { STEP }).await;
        }
    }

    fn trial(&self) -> EgressTrial {
        match self.began.elapsed() {
            elapsed if elapsed >= self.grace * OVERDUE => EgressTrial::Overdue,
            elapsed if elapsed >= self.grace => EgressTrial::Long,
            _ => EgressTrial::Begun,
        }
    }

    /// Reports findings for the Repo's condition, and for people where it minds: the pod works meanwhile.
    async fn watch(mut self, gateway: GatewayClient) {
        loop {
            let report = self.next().await;
            let told = gateway.egress(&report).await;
            let lost = told.is_err_and(|error| !is_waiting(&error));
            if lost || !report.reached || report.trial == EgressTrial::Overdue {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_ahead_counts_for_a_while_and_until_one_finds_a_way_out() {
        let (seen, now) = (SeenWall::default(), Instant::now());
        assert!(!seen.stands(now), "nobody has looked");
        seen.note(true, now);
        assert!(seen.clone().stands(now + LOOK_AHEAD));
        assert!(!seen.stands(now + COUNTS));
        seen.note(false, now);
        assert!(!seen.stands(now));
    }
}
