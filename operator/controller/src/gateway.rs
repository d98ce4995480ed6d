//! The gateway's address for agent pods, read from its Service.

use std::net::{IpAddr, SocketAddr};

use codebutler_runtime::shards::{self, GatewayShard};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use crate::args::ControllerArgs;

/// The gateway's Service can't be used; says what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GatewayNotFound {
    #[error("Service `{service}` of the gateway does not exist: install the gateway")]
    MissingService { service: String },
    #[error("Service `{service}` has no cluster IP: it can't be headless or external")]
    WithoutAddress { service: String },
    #[error("Service `{service}` has no port {port}: add it for the agents")]
    WithoutPort { service: String, port: u16 },
}

/// The gateway as pods reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct GatewayAddress {
    /// Address of the gateway's Service; an IP address, because pods have no DNS. Each shard has a port of its own.
    pub address: SocketAddr,
    /// The port of its pods: network policies see addresses after translation.
    pub target_port: IntOrString,
}

impl GatewayAddress {
    /// Reads the Service, for the pods of a shard.
    ///
    /// # Errors
    /// When there is no such Service, or none with a stable address and the agents' port.
    pub(crate) fn read(
        service: Option<&Service>,
        args: &ControllerArgs,
        shard: GatewayShard,
    ) -> Result<Self, GatewayNotFound> {
        let named = format!("{}/{}", args.namespace, args.gateway_service);
        let Some(spec) = service.and_then(|service| service.spec.as_ref()) else {
            return Err(GatewayNotFound::MissingService { service: named });
        };
        let address: Option<IpAddr> = spec.cluster_ip.as_deref().and_then(|ip| ip.parse().ok());
        let Some(address) = address else {
            return Err(GatewayNotFound::WithoutAddress { service: named });
        };
        let (_, further) = shards::port_of(shard.index());
        let number = args.gateway_port.saturating_add(further);
        let Some(port) = spec.ports.iter().flatten().find(|p| p.port == i32::from(number)) else {
            return Err(GatewayNotFound::WithoutPort { service: named, port: number });
        };
        Ok(Self {
            address: SocketAddr::new(address, number),
            target_port: port.target_port.clone().unwrap_or(IntOrString::Int(port.port)),
        })
    }
}

/// The gateway's URL by the name on its certificate.
pub(crate) fn gateway_url(gateway: &GatewayAddress, args: &ControllerArgs) -> String {
    format!("https://{}.{}.svc:{}", args.gateway_service, args.namespace, gateway.address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::args;

    fn read(spec: &serde_json::Value) -> Result<GatewayAddress, GatewayNotFound> {
        let service = serde_json::from_value(serde_json::json!({"spec": spec})).unwrap();
        GatewayAddress::read(Some(&service), &args(), GatewayShard::default())
    }

    #[test]
    fn only_a_service_with_an_address_and_the_port_will_do() {
        let ports = serde_json::json!([{"port": 8443, "targetPort": "agents"}]);
        let found = read(&serde_json::json!({"clusterIP": "10.96.0.7", "ports": ports})).unwrap();
        assert_eq!(found.address.to_string(), "10.96.0.7:8443");
        assert_eq!(found.target_port, IntOrString::String("agents".to_owned()));
        let v6 = read(&serde_json::json!({"clusterIP": "fd00::7", "ports": ports})).unwrap();
        assert_eq!(v6.address.to_string(), "[fd00::7]:8443");

        let headless = serde_json::json!({"clusterIP": "None", "ports": ports});
        let headless = read(&headless).unwrap_err().to_string();
        assert!(headless.contains("headless"), "{headless}");
        let portless =
            read(&serde_json::json!({"clusterIP": "10.96.0.7"})).unwrap_err().to_string();
        assert!(portless.contains("no port 8443"), "{portless}");
        let missing = GatewayAddress::read(None, &args(), GatewayShard::default());
        let missing = missing.unwrap_err().to_string();
        assert!(missing.contains("install the gateway"), "{missing}");
    }

    #[test]
    fn each_shard_has_its_own_port_of_the_service() {
        let ports = serde_json::json!([
            {"name": "agents", "port": 8443, "targetPort": 8443},
            {"name": "agents-1", "port": 8444, "targetPort": 8443},
        ]);
        let spec = serde_json::json!({"spec": {"clusterIP": "10.96.0.7", "ports": ports}});
        let service = serde_json::from_value(spec).unwrap();
        let read =
            |index| GatewayAddress::read(Some(&service), &args(), GatewayShard::new(index, 3));
        let second = read(1).unwrap();
        assert_eq!(second.address.to_string(), "10.96.0.7:8444");
        assert_eq!(second.target_port, IntOrString::Int(8443), "policies are about the pods' port");
        let url = gateway_url(&second, &args());
        assert_eq!(url, "https://codebutler-gateway.codebutler-system.svc:8444");
        let third = read(2).unwrap_err().to_string();
        assert!(third.contains("no port 8445"), "{third}");
    }
}
