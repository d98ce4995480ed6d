//! The gateway's address for agent pods, read from its Service.

use std::net::{IpAddr, SocketAddr};

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
    /// Address of the gateway's Service; an IP address, because pods have no DNS.
    pub address: SocketAddr,
    /// The port of its pods: network policies see addresses after translation.
    pub target_port: IntOrString,
}

impl GatewayAddress {
    /// Reads the Service.
    ///
    /// # Errors
    /// When there is no such Service, or none with a stable address and the agents' port.
    pub(crate) fn read(
        service: Option<&Service>,
        args: &ControllerArgs,
    ) -> Result<Self, GatewayNotFound> {
        let named = format!("{}/{}", args.namespace, args.gateway_service);
        let Some(spec) = service.and_then(|service| service.spec.as_ref()) else {
            return Err(GatewayNotFound::MissingService { service: named });
        };
        let address: Option<IpAddr> = spec.cluster_ip.as_deref().and_then(|ip| ip.parse().ok());
        let Some(address) = address else {
            return Err(GatewayNotFound::WithoutAddress { service: named });
        };
        let number = args.gateway_port;
        let Some(port) = spec.ports.iter().flatten().find(|p| p.port == i32::from(number)) else {
            return Err(GatewayNotFound::WithoutPort { service: named, port: number });
        };
        Ok(Self {
            address: SocketAddr::new(address, args.gateway_port),
            target_port: port.target_port.clone().unwrap_or(IntOrString::Int(port.port)),
        })
    }
}

/// The gateway's URL by the name on its certificate.
pub(crate) fn gateway_url(args: &ControllerArgs) -> String {
    format!("https://{}.{}.svc:{}", args.gateway_service, args.namespace, args.gateway_port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::args;

    fn read(spec: &serde_json::Value) -> Result<GatewayAddress, GatewayNotFound> {
        let service = serde_json::from_value(serde_json::json!({"spec": spec})).unwrap();
        GatewayAddress::read(Some(&service), &args())
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
        let missing = GatewayAddress::read(None, &args()).unwrap_err().to_string();
        assert!(missing.contains("install the gateway"), "{missing}");
    }
}
