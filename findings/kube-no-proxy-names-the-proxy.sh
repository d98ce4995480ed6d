#!/usr/bin/env bash
# The Kubernetes client for Rust (crates.io kube-client 5.0.0) takes HTTPS_PROXY for the server of a kubeconfig, also for one on the loopback.
# With its feature `http-proxy`, NO_PROXY is compared with the host of the proxy instead of the host of the server: an exception for the server
# has no effect, and one for the proxy (with its port) switches the proxy off for every server. Without that feature NO_PROXY is not read at all, and each
# client ends in ProxyProtocolDisabled as long as HTTPS_PROXY is set. kubectl and curl compare NO_PROXY with the server.
# Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cargo init --quiet --name finding --vcs none
cat >>Cargo.toml <<'TOML'
kube-client = { version = "=5.0.0", default-features = false, features = ["client", "config", "rustls-tls", "ring"] }
k8s-openapi = { version = "=0.29.0", features = ["v1_33"] }
tokio = { version = "1", features = ["macros", "rt"] }

[features]
proxy = ["kube-client/http-proxy"]
TOML
cat >src/main.rs <<'RUST'
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let kubeconfig = Kubeconfig::from_yaml(
        r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}"#,
    );
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig.unwrap(), &options).await.unwrap();
    let proxy = config.proxy_url.clone().map_or("none".to_owned(), |proxy| proxy.to_string());
    let client = match Client::try_from(config) {
        Ok(_) => "made".to_owned(),
        Err(error) => error.to_string(),
    };
    println!("proxy {proxy}; client {client}");
}
RUST
ask() { env -u https_proxy -u no_proxy HTTPS_PROXY=http://proxy.example:3128 "NO_PROXY=$1" target/debug/finding; }

cargo build --quiet
said=$(ask 127.0.0.1)
echo "kube-client 5.0.0, without http-proxy, NO_PROXY names the server: $said"
grep -q 'proxy http://proxy.example:3128/; client .*http-proxy' <<< "$said"

cargo build --quiet --features proxy
said=$(ask 127.0.0.1)
echo "with http-proxy, NO_PROXY names the server: $said"
grep -q '^proxy http://proxy.example:3128/; client made$' <<< "$said"
said=$(ask proxy.example:3128)
echo "with http-proxy, NO_PROXY names the proxy: $said"
grep -q '^proxy none; client made$' <<< "$said"
