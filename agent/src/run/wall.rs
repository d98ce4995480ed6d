//! Whether the cluster keeps the pod to the gateway. Nothing of the toolbox runs before that was
//! found out: network plugins close a pod's ways out a moment after its start, or never.
//!
//! Every attempt dials anew, so a wall that comes late is noticed by the pod that missed it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use codebutler_wire::{EgressReport, EgressTrial, ErrorCode, RoleSession};
use tokio::time::sleep;

use crate::args::RunArgs;
use crate::egress::EgressWays;
use crate::gateway::{GatewayClient, GatewayError};

/// Between two looks while the wall may be coming.
const STEP: Duration = Duration::from_millis(250);
/// How long a Repo that can't be worked with is waited for, and how often it is tried.
const REPO_PATIENCE: Duration = Duration::from_mins(10);
const REPO_PAUSE: Duration = Duration::from_secs(5);
/// After so many times its grace, one pod's word counts alone.
const OVERDUE: u32 = 3;

/// What has to keep the pod to the gateway.
#[derive(Clone)]
pub(super) struct EgressWall {
    gateway: GatewayClient,
    /// A platform that tells no address leaves nothing to try.
    ways: Option<EgressWays>,
    grace: Duration,
}

impl EgressWall {
    pub(super) fn new(gateway: GatewayClient, args: &RunArgs) -> Self {
        let api_server = args.forbidden_host.map(|ip| SocketAddr::new(ip, args.forbidden_port));
        let (node, dns) = (args.forbidden_node, &args.forbidden_dns);
        let inside = args.gateway_address;
        let ways = api_server.map(|address| EgressWays::new(inside, address, node, dns));
        Self { gateway, ways, grace: Duration::from_secs(args.wall_grace) }
    }

    /// Waits until the gateway lets the pod work: because nothing else can be reached, or because
    /// the Repo does not mind. It tells people what has to be mended.
    pub(super) async fn stands(&self) -> Result<(), GatewayError> {
        let Some(mut looks) = self.looks() else { return Ok(()) };
        loop {
            let report = looks.next().await;
            match self.gateway.egress(&report).await {
                Ok(()) => {
                    if report.reached {
                        tokio::spawn(looks.watch(self.gateway.clone()));
                    }
                    return Ok(());
                }
                Err(error) if is_waiting(&error) && looks.began.elapsed() < REPO_PATIENCE => {
                    tracing::warn!(ways = ?report.ways, "not kept to the gateway");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The session. Waits for a while for people to mend a Repo that can't be worked with: the gateway
    /// has told them. What other pods found is no reason to wait for one that is kept in.
    pub(super) async fn session(&self) -> Result<RoleSession, GatewayError> {
        let deadline = Instant::now() + REPO_PATIENCE;
        loop {
            match self.gateway.session().await {
                Err(error) if is_waiting(&error) && Instant::now() < deadline => {
                    tracing::warn!(%error, "waiting for the Repo to be mended");
                }
                other => return other,
            }
            sleep(REPO_PAUSE).await;
            if let Some(mut looks) = self.looks() {
                let told = self.gateway.egress(&looks.next().await).await;
                let _ = told.inspect_err(|error| tracing::debug!(%error, "not kept in"));
            }
        }
    }

    fn looks(&self) -> Option<Looks> {
        let ways = self.ways.clone()?;
        Some(Looks { ways, grace: self.grace, began: Instant::now(), told: None })
    }
}

/// Refused until somebody mends something.
fn is_waiting(error: &GatewayError) -> bool {
    error.code() == Some(ErrorCode::Upstream)
}

/// Looks at the wall, until it stands.
struct Looks {
    ways: EgressWays,
    grace: Duration,
    began: Instant,
    told: Option<(Instant, EgressReport)>,
}

impl Looks {
    /// The next thing to tell: what has changed, or the same after a while.
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

    /// For the Repo's condition alone: the pod works meanwhile.
    async fn watch(mut self, gateway: GatewayClient) {
        loop {
            let report = self.next().await;
            let told = gateway.egress(&report).await;
            if told.is_err() || !report.reached || report.trial == EgressTrial::Overdue {
                return;
            }
        }
    }
}
