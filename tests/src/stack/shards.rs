//! Several leaders of the gateways: what the chart makes for shards behind the first one, and for each shard an
//! address that leads to whichever process holds its Lease.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::names;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::cluster::TestCluster;
use crate::place::InstallPlace;
use crate::serving::own_loopback_address;

/// The agents' port of the gateway's Service that leads to the first shard's leader.
const FIRST_PORT: u16 = 8443;

/// The Lease of a shard's leader.
pub fn shard_lease(shard: u16) -> String {
    if shard == 0 { names::GATEWAY.to_owned() } else { format!("{}-{shard}", names::GATEWAY) }
}

/// Objects of the shards behind the first one: the Leases, EndpointSlices and rights of each, and the Service's ports.
pub fn shard_manifests(place: &InstallPlace, shards: u16) -> Vec<Value> {
    let system = &place.system;
    let leases: Vec<String> = (1..shards).map(shard_lease).collect();
    let families = [("", "IPv4"), ("-ipv6", "IPv6")];
    let slices: Vec<String> =
        leases.iter().flat_map(|name| families.map(|(end, _)| format!("{name}{end}"))).collect();
    let of_leases = |verbs: [&str; 2]| {
        json!({
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "resourceNames": leases, "verbs": verbs,
        })
    };
    let of_slices = json!({
        "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
        "resourceNames": slices, "verbs": ["get", "patch"],
    });
    let leading_to_pods = json!({
        "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices/restricted"],
        "resourceNames": slices, "verbs": ["create"],
    });
    let gateway = [of_leases(["get", "update"]), of_slices, leading_to_pods];
    let mut objects = rights(system, names::GATEWAY, &gateway);
    objects.extend(rights(system, names::CONTROLLER, &[of_leases(["list", "watch"])]));
    for name in &leases {
        objects.push(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": system, "name": name},
        }));
        objects.extend(families.map(|(end, family)| {
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "namespace": system, "name": format!("{name}{end}"),
                    "labels": {
                        "kubernetes.io/service-name": names::GATEWAY,
                        "endpointslice.kubernetes.io/managed-by": names::GATEWAY,
                    },
                },
                "addressType": family,
            })
        }));
    }
    let ports: Vec<Value> = (0..shards)
        .map(|shard| {
            let name = if shard == 0 { "agents".to_owned() } else { format!("agents-{shard}") };
            json!({"name": name, "port": FIRST_PORT + shard, "targetPort": FIRST_PORT})
        })
        .collect();
    objects.push(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": system, "name": names::GATEWAY},
        "spec": {"ports": ports},
    }));
    objects
}

/// A Role of these rules with its binding.
fn rights(system: &str, account: &str, rules: &[Value]) -> Vec<Value> {
    let (name, group) = (format!("{account}-shards"), "rbac.authorization.k8s.io");
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"namespace": system, "name": name}, "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"namespace": system, "name": name},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": system}],
        }),
    ]
}

/// Makes the objects of shards, and addresses for their leaders. `gateways`: the processes that may lead, by the number
/// in their identity. None where there is one shard.
pub(super) async fn prepare_shards(
    cluster: &TestCluster,
    place: &InstallPlace,
    gateways: &[SocketAddr],
    shards: u16,
) -> anyhow::Result<Option<LeaderForwards>> {
    if shards < 2 {
        return Ok(None);
    }
    for object in shard_manifests(place, shards) {
        cluster.apply_yaml(&object.to_string()).await?;
    }
    let by_identity = gateways.iter().enumerate().map(|(n, address)| (identity(n), *address));
    let by_identity = by_identity.collect();
    let ip = own_loopback_address();
    let started = LeaderForwards::start((cluster.client(), place), ip, by_identity, shards);
    Ok(Some(started.await?))
}

/// Name of a gateway's pod, by which it holds a Lease.
pub(super) fn identity(number: usize) -> String {
    format!("codebutler-gateway-{number}")
}

/// A flag with the number of shards, where there are several.
pub(super) fn shard_flag(name: &str, shards: u16) -> Option<String> {
    (shards > 1).then(|| format!("--{name}={shards}"))
}

/// Flags that each gateway has.
pub(super) fn gateway_flags(
    dir: &Path,
    number: usize,
    (address, metrics): (SocketAddr, u16),
    slack_api: &str,
) -> Vec<String> {
    let cache = if number == 0 { "git-cache".to_owned() } else { format!("git-cache-{number}") };
    vec![
        format!("--listen={address}"),
        // Started again, it goes on with its own lease.
        format!("--pod={}", identity(number)),
        format!("--metrics-address={}", SocketAddr::new(address.ip(), metrics)),
        format!("--slack-api={slack_api}"),
        format!("--git-cache={}", dir.join(cache).display()),
        format!("--history={}", dir.join("history").display()),
        // The outside world of the testbed is on this machine.
        "--egress-allow=127.0.0.0/8".to_owned(),
    ]
}

/// Addresses that lead to the shards' leaders, whoever they are at the time of a connection.
#[derive(Debug)]
pub struct LeaderForwards {
    targets: Vec<SocketAddr>,
    _tasks: JoinSet<()>,
}

impl LeaderForwards {
    /// Listens on `ip`. `gateways`: the processes that may lead, by their identity.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start(
        (client, place): (Client, &InstallPlace),
        ip: IpAddr,
        gateways: BTreeMap<String, SocketAddr>,
        shards: u16,
    ) -> io::Result<Self> {
        let leases = Api::<Lease>::namespaced(client, &place.system);
        let gateways = Arc::new(gateways);
        let (mut targets, mut tasks) = (Vec::new(), JoinSet::new());
        for shard in 0..shards {
            let listener = TcpListener::bind((ip, 0)).await?;
            targets.push(listener.local_addr()?);
            let forward = LeaderForward {
                leases: leases.clone(),
                lease: shard_lease(shard),
                gateways: Arc::clone(&gateways),
            };
            tasks.spawn(forward.serve(listener));
        }
        Ok(Self { targets, _tasks: tasks })
    }

    /// Each port of the gateway's Service, with the address to which its connections go.
    pub fn ports(&self) -> Vec<(u16, SocketAddr)> {
        (FIRST_PORT..).zip(self.targets.iter().copied()).collect()
    }
}

/// A shard's address; see [`LeaderForwards`].
#[derive(Clone)]
struct LeaderForward {
    leases: Api<Lease>,
    lease: String,
    gateways: Arc<BTreeMap<String, SocketAddr>>,
}

impl LeaderForward {
    async fn serve(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((inside, _)) => {
                        connections.spawn(self.clone().pass_on(inside));
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// Ends the connection where nobody leads, as a Service without endpoints does.
    async fn pass_on(self, mut inside: TcpStream) -> io::Result<()> {
        let lease = self.leases.get(&self.lease).await.map_err(io::Error::other)?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
        let Some(leader) = self.gateways.get(&holder) else { return Ok(()) };
        let mut outside = TcpStream::connect(leader).await?;
        inside.set_nodelay(true)?;
        outside.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut inside, &mut outside).await.map(drop)
    }
}
