//! The agents' port, served for each shard by one replica at a time: the one that holds the shard's lease. The Service
//! leads to it by its [`HolderEndpoint`]; who loses the lease stops at once, and is a candidate again; who is told to
//! stop hands over as [`drain`] has it.

use std::time::Duration;

use anyhow::Context as _;
use codebutler_crds::names;
use codebutler_gateway_core::drain::{self, DrainShares};
use codebutler_gateway_core::history_follow;
use codebutler_gateway_core::pulse;
use codebutler_gateway_core::serve;
use codebutler_mcp_servers::probe as servers;
use codebutler_models::model_conditions;
use codebutler_models::settle;
use codebutler_runtime::lease::LeaseSettings;
use codebutler_runtime::listen::listen_on;
use codebutler_runtime::step;
use rustls::ServerConfig;
use tokio::time::timeout;

use crate::api;
use crate::args::GatewayArgs;
use crate::budget_pause as pause;
use crate::condition_notices;
use crate::endpoint_slices::HolderEndpoint;
use crate::guides;
use crate::parts;
use crate::radar;
use crate::roadmap;
use crate::shards::{HeldShard, ShardCampaign};
use crate::starts;
use crate::state::{GatewayBase, SharedGateway};
use crate::train;
use crate::watch;
use crate::web;

/// Name of the Lease, in the operator's namespace.
pub const LEASE: &str = names::GATEWAY;

/// Campaigns, and serves agents while the lease is held, until told to stop.
///
/// # Errors
/// When the port can't be listened on.
pub async fn hold_lease(
    gateway: &GatewayBase,
    args: &GatewayArgs,
    tls: ServerConfig,
) -> anyhow::Result<()> {
    let client = gateway.context.client.clone();
    // A container that starts again in the pod of a former holder: the slices may still have its address.
    for shard in 0..args.shards {
        HolderEndpoint::new(client.clone(), args, shard).remove().await;
    }
    let mut campaign = ShardCampaign::new(client.clone(), lease_settings(args), args.shards);
    while !gateway.shutdown.is_cancelled() {
        let held = Box::pin(gateway.shutdown.run_until_cancelled(campaign.held())).await;
        let Some(HeldShard { shard, lease }) = held else {
            campaign.leave().await;
            break;
        };
        let endpoint = HolderEndpoint::new(client.clone(), args, shard.index());
        let term = gateway.begin_term(shard);
        let served = tokio::select! {
            served = serve_agents(&term, args, tls.clone(), &endpoint) => Some(served),
            () = lease.lost() => None,
            () = Box::pin(campaign.number_changed()) => None,
        };
        if let Some(served) = served {
            // From now on another replica serves new calls. Where some of this one's books are not written yet, that
            // replica has to wait until the lease has run out.
            match served {
                Ok(false) => drop(lease),
                Ok(true) | Err(_) => lease.release().await,
            }
            gateway.metrics.follows();
            end_calls(&term, memory_shares(args)).await;
            return served.map(drop);
        }
        // Another gateway may serve agents already, so this one may not act any more.
        term.cut().await;
        gateway.metrics.follows();
        tracing::error!("leadership_lost");
        let _ = timeout(memory_shares(args).books, endpoint.remove()).await;
    }
    Ok(())
}

fn lease_settings(args: &GatewayArgs) -> LeaseSettings {
    let random = || format!("gateway-{:08x}", rand::random::<u32>());
    LeaseSettings {
        namespace: args.namespace.clone(),
        name: LEASE.to_owned(),
        identity: args.pod.clone().unwrap_or_else(random),
        duration: Duration::from_secs(args.lease_seconds),
    }
}

/// Serves agents until told to stop; returns true if all books are on record.
async fn serve_agents(
    gateway: &SharedGateway,
    args: &GatewayArgs,
    tls: ServerConfig,
    endpoint: &HolderEndpoint,
) -> anyhow::Result<bool> {
    let begun = Box::pin(async {
        gateway.work.ledger.inherit().await;
        gateway.builds.inherit(&gateway.work.context);
        let address = args.listen;
        let listener = listen_on(address).with_context(|| {
            format!("agents can't be served on {address}: choose another --listen")
        })?;
        endpoint.take().await;
        anyhow::Ok(listener)
    });
    let Some(listener) = gateway.work.shutdown.run_until_cancelled(begun).await else {
        return Ok(true);
    };
    let listener = listener?;
    gateway.work.metrics.leads();
    for repo in gateway.work.context.own_repos() {
        for role in gateway.work.context.roles_of(&repo) {
            gateway.work.metrics.expect(&repo, &role);
        }
    }
    gateway.work.slack.hear_with(codebutler_models::build_speech_desk(&gateway.models));
    tracing::info!(address = %listener.local_addr()?, "agent_api_started");
    let shares = memory_shares(args);
    let ends = (&gateway.connections, gateway.work.shutdown.clone());
    let app = api::build_router(gateway.clone());
    let serving = serve::serve_agents(listener, tls, app, serve::ConnectionLimits::default(), ends);
    let work = Box::pin(async {
        tokio::join!(serving, look_after(gateway, args, endpoint));
        gateway.models.requests.rest(shares.requests).await;
        gateway.work.calls.rest(shares.requests).await;
    });
    if drain::finish_within(&gateway.work.shutdown, shares.requests, work).await.is_none() {
        tracing::warn!(requests = gateway.models.requests.count(), "requests_aborted");
    }
    tokio::join!(gateway.models.requests.cut(), gateway.work.calls.cut());
    let seconds = u32::try_from(shares.all.as_secs()).unwrap_or(u32::MAX);
    step::point("before hand-over");
    let whole = timeout(shares.books, gateway.work.ledger.leave(seconds)).await.unwrap_or(false);
    if !whole {
        tracing::error!("ledger_handover_failed");
    }
    gateway.work.ledger.left();
    step::point("after hand-over");
    Ok(whole)
}

fn memory_shares(args: &GatewayArgs) -> DrainShares {
    DrainShares::of(Duration::from_secs(args.grace_seconds))
}

/// Serves model calls to their end beside another gateway, and puts on record what they have cost.
async fn end_calls(gateway: &SharedGateway, shares: DrainShares) {
    let calls = async {
        gateway.models.answers.rest(shares.calls).await;
        gateway.connections.rest(shares.calls).await;
    };
    if timeout(shares.calls, calls).await.is_err() {
        tracing::warn!(open = gateway.models.answers.count(), "model_calls_aborted");
    }
    tokio::join!(gateway.models.answers.cut(), gateway.connections.cut());
    if !timeout(shares.books, gateway.work.ledger.close()).await.unwrap_or(false) {
        tracing::error!("ledger_close_failed");
    }
}

/// Duties of a shard's leader beside answering agents, until it is told to stop: it tells people of a Thread's
/// conditions and collects it, and asks GitHub what people did there. Two replicas would say it twice.
async fn look_after(gateway: &SharedGateway, args: &GatewayArgs, endpoint: &HolderEndpoint) {
    let telling = Box::pin(condition_notices::run_notices(&gateway.work));
    let watching = Box::pin(watch::run_watch(&gateway.work, args.github_poll()));
    let (shard, stop) = (gateway.work.context.shard, gateway.work.shutdown.clone());
    let showing = Box::pin(gateway.work.slack.show_runs(shard, stop));
    let planning = Box::pin(roadmap::run_roadmaps(&gateway.work, args.github_poll()));
    let people = async {
        tokio::join!(telling, watching, showing, planning, pause::wake_paused(&gateway.work))
    };
    let probing = Box::pin(codebutler_git::probe::run_probe(&gateway.git));
    let settling = settle::run_settling(&gateway.models, settle::PATIENCE);
    let knowing = Box::pin(model_conditions::run_model_conditions(&gateway.models));
    let found = async {
        endpoint.keep(&gateway.work.shutdown).await;
        // No new request finds its way to a port that is closed, while those under way end.
        endpoint.remove().await;
    };
    let elsewhere = gateway.work.shutdown.run_until_cancelled(gateway.work.ledger.look_elsewhere());
    let knowing = async {
        tokio::join!(
            probing,
            settling,
            knowing,
            codebutler_git::tidy_copies(&gateway.git),
            elsewhere
        )
    };
    let hearing = Box::pin(pulse::watch_pulses(
        &gateway.work.context,
        &gateway.work.threads,
        &gateway.gate.pulse,
        (args.agent_silence(), &gateway.work.shutdown),
    ));
    let following = Box::pin(history_follow::run_following(
        &gateway.work.context,
        &gateway.work.shutdown,
        args.retention(),
    ));
    let comparing = Box::pin(radar::run_radar(&gateway.work));
    let beginning = Box::pin(starts::run_starts(&gateway.work, args.github_poll()));
    let judging = Box::pin(guides::run_guides(&gateway.work, args.github_poll()));
    let merging = Box::pin(train::run_trains(&gateway.work, args.github_poll()));
    let dividing = Box::pin(parts::run_parts(&gateway.work));
    let looking = Box::pin(servers::run_server_probe(
        &gateway.work.context,
        &gateway.work.conditions,
        &gateway.mcp.sessions,
        &gateway.work.shutdown,
    ));
    let seeking = Box::pin(web::run_search_conditions(
        &gateway.work.context,
        &gateway.work.conditions,
        &gateway.work.shutdown,
    ));
    let repos =
        async { tokio::join!(comparing, beginning, judging, merging, dividing, looking, seeking) };
    tokio::join!(people, knowing, found, hearing, following, repos);
}
