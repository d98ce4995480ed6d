//! Several leaders: each has Repos of its own, whoever dies, and nobody leads while others go by another number of
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use codebutler_crds::NanoUsd;
use codebutler_crds::names::ANNOTATION_SHARDS;
use codebutler_gateway::shards::{HeldShard, ShardCampaign};
use codebutler_runtime::lease::{LeadershipState, LeaseSettings};
use codebutler_runtime::shards::{GatewayShard, count_shards, lease_name};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::stack::shards::shard_manifests;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::timeout;

use super::cluster::Cluster;
use super::crash::Holder;
use super::{World, eventually};

/// The rights to what further shards have.
const RIGHTS: &str = "codebutler-gateway-shards";
/// Longer than a candidate takes for a Lease that is free.
const A_WHILE: Duration = Duration::from_millis(2500);
const PATIENCE: Duration = Duration::from_mins(1);

/// Makes what the chart makes for further shards.
async fn install_shards(cluster: &Cluster, shards: u16) {
    for object in shard_manifests(&cluster.place, shards) {
        cluster.apply(&object).await;
    }
}

/// A replica that was started with so many shards.
fn replica(cluster: &Cluster, identity: &str, shards: u32) -> ShardCampaign {
    let settings = LeaseSettings {
        namespace: cluster.system().to_owned(),
        name: lease_name(0),
        identity: identity.to_owned(),
        duration: Duration::from_secs(6),
    };
    ShardCampaign::new(cluster.gateway.clone(), settings, shards)
}

async fn held(campaign: &mut ShardCampaign) -> HeldShard {
    timeout(PATIENCE, campaign.held()).await.expect("nobody lets it lead")
}

async fn waits(campaign: &mut ShardCampaign) -> bool {
    timeout(A_WHILE, campaign.held()).await.is_err()
}

fn leads(held: &HeldShard) -> bool {
    *held.lease.leadership().borrow() == LeadershipState::Held
}

/// The number of shards in force.
async fn in_force(cluster: &Cluster) -> u32 {
    count_shards(&cluster.api::<Lease>(cluster.system()).get(&lease_name(0)).await.unwrap())
}

/// Takes the number away, as from a first Lease that was deleted and made anew.
async fn forget_number(cluster: &Cluster) {
    let none = json!({"metadata": {"annotations": {(ANNOTATION_SHARDS): null}}});
    let leases = cluster.api::<Lease>(cluster.system());
    leases.patch(&lease_name(0), &PatchParams::default(), &Patch::Merge(&none)).await.unwrap();
    assert_eq!(in_force(cluster).await, 1);
}

async fn holder_of(cluster: &Cluster, shard: u32) -> Option<String> {
    let lease = cluster.api::<Lease>(cluster.system()).get(&lease_name(shard)).await.unwrap();
    lease.spec.and_then(|spec| spec.holder_identity)
}

#[tokio::test(flavor = "multi_thread")]
async fn another_number_of_shards_waits_for_the_last_leader_by_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(dir.path()).await;
    install_shards(&cluster, 3).await;
    let first = held(&mut replica(&cluster, "old", 1)).await;
    assert_eq!(first.shard, GatewayShard::default());
    let mut new: Vec<_> = ["a", "b", "c", "d"].map(|name| replica(&cluster, name, 3)).into();
    assert!(waits(&mut new[0]).await, "somebody leads for all Repos");
    assert_eq!((leads(&first), in_force(&cluster).await), (true, 1));

    first.lease.release().await;
    let mut leaders = vec![held(&mut new[0]).await];
    assert_eq!(leaders[0].shard, GatewayShard::new(0, 3), "it holds all Leases, and keeps one");
    assert_eq!(in_force(&cluster).await, 3);
    for campaign in &mut new[1..3] {
        leaders.push(held(campaign).await);
    }
    let shards: BTreeSet<u32> = leaders.iter().map(|one| one.shard.index()).collect();
    assert_eq!(shards, [0, 1, 2].into());
    assert!(waits(&mut new[3]).await, "it stands by");
    let mut late = replica(&cluster, "late", 1);
    assert!(waits(&mut late).await, "a replica of the old number stands by too");
    assert!(leaders.iter().all(leads));

    let gone = leaders.pop().unwrap();
    let shard = gone.shard;
    gone.lease.release().await;
    assert_eq!(held(&mut new[3]).await.shard, shard, "who stands by takes over");
    assert_eq!(in_force(&cluster).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_goes_is_waited_for_until_its_leader_must_have_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(dir.path()).await;
    install_shards(&cluster, 2).await;
    let mut leaders = Vec::new();
    for name in ["a", "b"] {
        leaders.push(held(&mut replica(&cluster, name, 2)).await);
    }
    leaders.sort_by_key(|one| one.shard.index());
    assert_eq!(in_force(&cluster).await, 2);
    let (second, first) = (leaders.pop().unwrap(), leaders.pop().unwrap());

    // As an upgrade to one shard does: the right to the other Lease goes, and the replicas stop in turn.
    let bindings = cluster.api::<RoleBinding>(cluster.system());
    bindings.delete(RIGHTS, &DeleteParams::default()).await.unwrap();
    first.lease.release().await;
    let mut new = replica(&cluster, "new", 1);
    let now = held(&mut new).await;
    assert!(!leads(&second), "the other one still led");
    assert_eq!((now.shard, in_force(&cluster).await), (GatewayShard::default(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_whose_number_is_gone_stop_and_agree_anew() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(dir.path()).await;
    install_shards(&cluster, 2).await;
    let (mut a, mut b) = (replica(&cluster, "a", 2), replica(&cluster, "b", 2));
    let leaders = (held(&mut a).await, held(&mut b).await);
    assert!(timeout(A_WHILE, a.number_changed()).await.is_err(), "it is as it was");
    forget_number(&cluster).await;
    let both = async { tokio::join!(a.number_changed(), b.number_changed()) };
    timeout(PATIENCE, both).await.expect("they lead by a number that is not in force");
    drop(leaders);
    let (one, other) = tokio::join!(held(&mut a), held(&mut b));
    let shards = BTreeSet::from([one.shard.index(), other.shard.index()]);
    assert_eq!((shards, in_force(&cluster).await), ([0, 1].into(), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_serves_the_agents_of_its_own_shard_alone() {
    // What is reserved for a call is what it costs.
    let prices = json!({"model": {"prices": {"scripted/coder": {"completion": "300"}}}});
    let script = ModelScript::of("coder", vec![ScriptStep::say("one").costing(10, 10, "0.3")]);
    let world = World::play(script, &prices, &json!({})).await;
    install_shards(&world.cluster, 2).await;
    let own = GatewayShard::of_repo(world.cluster.team(), "shop", 2).index();
    let pods = ["codebutler-gateway-a", "codebutler-gateway-b"];
    let mut holders = Vec::new();
    for pod in pods {
        let mut holder = Holder::spawn_with(&world, pod, 60, &["--shards=2"]).await;
        assert!(holder.serves().await, "{}", world.log());
        holders.push(holder);
    }
    let leader = holder_of(&world.cluster, own).await.unwrap();
    let ours = pods.iter().position(|pod| *pod == leader).unwrap();
    let other = holder_of(&world.cluster, 1 - own).await;
    assert_eq!(other.as_deref(), Some(pods[1 - ours]), "each leads for one");
    assert_eq!(holders[ours].ask(&world).await, Some(200), "{}", world.log());
    assert_eq!(holders[1 - ours].ask(&world).await, Some(503), "{}", world.log());
    // Each has a port of the Service of its own.
    let slices = world.cluster.api::<EndpointSlice>(world.cluster.system());
    for (shard, port) in [(0, "agents"), (1, "agents-1")] {
        let leader = holder_of(&world.cluster, shard).await;
        eventually("the port leads to its leader", || async {
            let slice = slices.get(&lease_name(shard)).await.unwrap();
            let named = slice.ports.iter().flatten().map(|port| port.name.as_deref());
            let ends = slice.endpoints.iter().filter_map(|end| end.target_ref.as_ref());
            let ends: Vec<_> = ends.map(|end| end.name.clone()).collect();
            named.eq([Some(port)]) && ends == [leader.clone()]
        })
        .await;
    }

    // Killed, it can't say goodbye; what it did not put on record its successor judges.
    holders[ours].child.kill().await.unwrap();
    let mut next = Holder::spawn_with(&world, &leader, 60, &["--shards=2"]).await;
    assert!(next.serves().await, "{}", world.log());
    assert_eq!(next.ask(&world).await, Some(200), "{}", world.log());
    assert_eq!(holders[1 - ours].ask(&world).await, Some(503), "{}", world.log());
    assert!(next.stop().await, "{}", world.log());
    let status = world.thread().await.status.unwrap();
    let (settled, budget) = (status.cost.unwrap_or_default(), status.budget.unwrap_or_default());
    let billed = world.models.billed().total();
    let is_covered = settled <= billed && billed <= settled + budget.granted + budget.flagged;
    assert!(is_covered, "{billed} billed, {settled} settled: {budget:?}\n{}", world.log());
    assert_eq!(budget.granted, NanoUsd::ZERO);
    let mut other = holders.remove(1 - ours);
    forget_number(&world.cluster).await;
    eventually("its number is in force again", || async { in_force(&world.cluster).await == 2 })
        .await;
    assert!(other.serves().await, "{}", world.log());
    assert!(other.stop().await, "{}", world.log());
}
