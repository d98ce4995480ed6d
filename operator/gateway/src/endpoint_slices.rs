//! Target of the Service of agents: an EndpointSlice with the holder's address. The gateway has no right on pods, so
//! it labels none, and can change none. The installation brings one slice for each address family along, since a
//! family can't be changed; the gateway may create no other. Each shard has its own slices, in which the port is
//! called after it: so a port of the Service leads to each shard's leader.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use codebutler_crds::names;
use codebutler_gateway_core::writes;
use codebutler_runtime::shards::{name_object, port_of};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use kube::api::{ObjectMeta, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::args::GatewayArgs;

const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(200);
/// Interval at which the holder checks that its address is still in the slice.
const LOOK: Duration = Duration::from_secs(10);

/// Address of our own pod in the EndpointSlice of a shard.
pub struct HolderEndpoint {
    shard: u32,
    slices: Api<EndpointSlice>,
    /// Name and address of our own pod; nothing outside a cluster.
    own: Option<(String, IpAddr)>,
    service: String,
    namespace: String,
    port: u16,
}

impl HolderEndpoint {
    pub fn new(client: Client, args: &GatewayArgs, shard: u32) -> Self {
        Self {
            shard,
            slices: Api::namespaced(client, &args.namespace),
            own: args.pod.clone().zip(args.pod_ip),
            service: args.service.clone(),
            namespace: args.namespace.clone(),
            port: args.listen.port(),
        }
    }

    /// Makes the Service lead to us, and to nobody else.
    pub async fn take(&self) {
        let Some((pod, ip)) = &self.own else { return };
        let slice = self.slice(pod, *ip);
        let params = PatchParams::apply(names::GATEWAY).force();
        for attempt in 0..ATTEMPTS {
            match self.slices.patch(&slice.name_any(), &params, &Patch::Apply(&slice)).await {
                Ok(_) => return,
                Err(error) => tracing::warn!(
                    %error,
                    attempt,
                    slice = slice.name_any(),
                    "endpoint_slice_write_failed"
                ),
            }
            sleep(PAUSE).await;
        }
    }

    /// Restores the address after somebody has changed or removed the slice.
    pub async fn keep(&self, shutdown: &CancellationToken) {
        while shutdown.run_until_cancelled(sleep(LOOK)).await.is_some() {
            match self.slices.get_opt(&self.name()).await {
                Ok(found) if found.as_ref().is_some_and(|slice| self.is_ours(slice)) => {}
                Ok(_) => self.take().await,
                Err(error) => tracing::debug!(%error, "endpoint_slice_unknown"),
            }
        }
    }

    /// Removes our address, so that no agent is led here any more; another replica's stays.
    pub async fn remove(&self) {
        if self.own.is_none() {
            return;
        }
        let name = self.name();
        let found = self.slices.get_opt(&name).await;
        let Ok(Some(slice)) =
            found.inspect_err(|error| tracing::warn!(%error, "endpoint_slice_read_failed"))
        else {
            return;
        };
        if !self.is_ours(&slice) {
            return;
        }
        // The version: what another one has written meanwhile stays.
        let nowhere = json!({
            "metadata": {"resourceVersion": slice.resource_version()},
            "endpoints": [],
        });
        let emptied =
            self.slices.patch(&name, &writes::patch_params(), &Patch::Merge(&nowhere)).await;
        if let Err(error) = emptied {
            tracing::info!(%error, "endpoint_slice_clear_failed");
        }
    }

    /// The slice of our own address family.
    fn name(&self) -> String {
        let name = name_object(&self.service, self.shard);
        match self.own {
            Some((_, IpAddr::V6(_))) => format!("{name}-ipv6"),
            _ => name,
        }
    }

    fn is_ours(&self, slice: &EndpointSlice) -> bool {
        let Some((pod, ip)) = &self.own else { return false };
        let wanted = self.slice(pod, *ip);
        slice.endpoints.len() == 1
            && slice.endpoints[0].addresses == wanted.endpoints[0].addresses
            && slice.endpoints[0].target_ref == wanted.endpoints[0].target_ref
            && slice.ports == wanted.ports
            && slice.labels().get(SERVICE_LABEL) == Some(&self.service)
    }

    fn slice(&self, pod: &str, ip: IpAddr) -> EndpointSlice {
        let labels = [(SERVICE_LABEL, self.service.as_str()), (MANAGED_BY, names::GATEWAY)];
        let labels: BTreeMap<_, _> =
            labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let ready = EndpointConditions { ready: Some(true), ..EndpointConditions::default() };
        EndpointSlice {
            metadata: ObjectMeta {
                name: Some(self.name()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            address_type: if ip.is_ipv4() { "IPv4" } else { "IPv6" }.to_owned(),
            endpoints: vec![Endpoint {
                addresses: vec![ip.to_string()],
                conditions: Some(ready),
                target_ref: Some(ObjectReference {
                    kind: Some("Pod".to_owned()),
                    name: Some(pod.to_owned()),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectReference::default()
                }),
                ..Endpoint::default()
            }],
            ports: Some(vec![EndpointPort {
                name: Some(port_of(self.shard).0),
                port: Some(self.port.into()),
                protocol: Some("TCP".to_owned()),
                ..EndpointPort::default()
            }]),
        }
    }
}

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
