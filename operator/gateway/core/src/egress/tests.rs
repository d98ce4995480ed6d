//! Attempts to get out. Each test fails if one succeeds.

use std::net::{IpAddr, SocketAddr};

use futures::FutureExt as _;

use super::*;
use crate::dial::DialOptions;

fn rules(hosts: &[&str]) -> EgressSpec {
    EgressSpec {
        hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        ..EgressSpec::default()
    }
}

/// Resolves every name to these addresses, in turn.
fn resolving(answers: &[&[&str]]) -> ThreadEgress {
    let answers: Vec<Vec<IpAddr>> =
        answers.iter().map(|ips| ips.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
    let asked = Arc::new(Mutex::new(answers.into_iter().cycle()));
    let lookup = move |_, port| {
        let ips = asked.lock().next().unwrap_or_default();
        async move { Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()) }.boxed()
    };
    ThreadEgress::new(
        OutsideDialer::with_lookup(&DialOptions::default(), Arc::new(lookup)).unwrap(),
    )
}

fn opening(open: &[&str]) -> ThreadEgress {
    let egress_allow = open.iter().map(|network| network.parse().unwrap()).collect();
    ThreadEgress::new(
        OutsideDialer::new(&DialOptions { egress_allow, ..DialOptions::default() }).unwrap(),
    )
}

async fn asked(
    egress: &ThreadEgress,
    hosts: &[&str],
    to: &str,
) -> Result<Vec<SocketAddr>, EgressRefusal> {
    let target = EgressTarget::parse(to)?;
    check_listed((&rules(hosts)).into(), &target)?;
    egress.dialer.addresses(&target).await
}

#[tokio::test]
async fn only_listed_hosts_and_ports_are_resolved() {
    let egress = resolving(&[&["93.184.216.34"]]);
    let hosts = ["crates.io", "*.npmjs.org", "registry.acme.dev:8443"];
    for to in [
        "crates.io:443",
        "CRATES.io.:80",
        "registry.npmjs.org:443",
        "a.b.npmjs.org:443",
        "registry.acme.dev:8443",
    ] {
        asked(&egress, &hosts, to).await.unwrap();
    }
    for to in [
        "crates.io:22",
        "evil.org:443",
        "npmjs.org:443",
        "xnpmjs.org:443",
        "npmjs.org.evil.org:443",
        "crates.io.evil.org:443",
        "registry.acme.dev:443",
        "93.184.216.34:443",
    ] {
        let refusal = asked(&egress, &hosts, to).await.unwrap_err();
        assert!(matches!(refusal, EgressRefusal::NotListed { .. }), "{to}: {refusal}");
    }
    let told = asked(&egress, &hosts, "evil.org:443").await.unwrap_err().to_string();
    assert!(told.contains("evil.org:443") && told.contains("spec.egress.hosts"), "{told}");
}

#[tokio::test]
async fn a_preset_opens_its_own_hosts_and_a_refusal_names_the_preset_to_add() {
    let rules = EgressSpec { presets: vec![EgressPreset::Npm], ..EgressSpec::default() };
    let check = |to: &str| check_listed((&rules).into(), &EgressTarget::parse(to).unwrap());
    for to in ["registry.npmjs.org:443", "REGISTRY.npmjs.org:80", "nodejs.org:443"] {
        check(to).unwrap();
    }
    for (to, remedy) in [
        ("registry.npmjs.org:22", "`npm` in spec.egress.presets of its Repo"),
        ("index.crates.io:443", "`crates` in spec.egress.presets of its Repo"),
        ("npmjs.org:443", "spec.egress.hosts of its Repo"),
        ("a.registry.npmjs.org:443", "spec.egress.hosts of its Repo"),
        ("registry.npmjs.org.evil.org:443", "spec.egress.hosts of its Repo"),
    ] {
        let told = check(to).unwrap_err().to_string();
        assert!(told.contains(remedy), "{to}: {told}");
    }
}

#[tokio::test]
async fn names_that_lead_inside_are_refused_though_listed() {
    for ip in [
        "127.0.0.1",
        "10.96.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "0.0.0.0",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        "192.0.0.192",
        "198.18.0.1",
        "::1",
        "::",
        "fe80::1",
        "fd00:ec2::254",
        "fc00::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001::1",
        "ff02::1",
        "fec0::1",
        "100::1",
    ] {
        let refusal = asked(&resolving(&[&[ip]]), &["a.dev"], "a.dev:443").await.unwrap_err();
        assert_eq!(refusal, EgressRefusal::Internal("a.dev".to_owned()), "{ip}");
        let refusal = asked(&resolving(&[&["1.1.1.1", ip]]), &["a.dev"], "a.dev:443").await;
        assert!(refusal.is_err(), "{ip} besides a public one");
    }
    for ip in ["1.1.1.1", "2606:4700::1111", "172.32.0.1", "::ffff:1.1.1.1"] {
        asked(&resolving(&[&[ip]]), &["a.dev"], "a.dev:443").await.unwrap();
    }
}

#[tokio::test]
async fn metadata_addresses_are_refused_though_listed_or_opened() {
    let egress = opening(&["169.254.0.0/16", "0.0.0.0/0"]);
    for (listed, to) in
        [("169.254.169.254", "169.254.169.254:80"), ("168.63.129.16", "168.63.129.16:80")]
    {
        let refusal = asked(&egress, &[listed], to).await.unwrap_err();
        assert!(matches!(refusal, EgressRefusal::Internal(_)), "{to}: {refusal}");
    }
}

#[tokio::test]
async fn a_name_that_rebinds_is_asked_once_and_the_checked_address_is_used() {
    let egress = resolving(&[&["93.184.216.34"], &["127.0.0.1"]]);
    let checked = asked(&egress, &["re.bind"], "re.bind:443").await.unwrap();
    assert_eq!(checked, ["93.184.216.34:0".parse().unwrap()]);
    // The next connection asks anew, and is refused.
    asked(&egress, &["re.bind"], "re.bind:443").await.unwrap_err();
}

#[tokio::test]
async fn odd_spellings_of_addresses_and_hosts_are_no_hosts() {
    for to in [
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.1:80",
        "127.1:80",
        "0177.0.0.1:80",
        "127.0.0.1.:0",
        "user@crates.io:443",
        "user:pw@crates.io:443",
        "crates.io:443@evil.org:443",
        "crates.io:+443",
        "crates.io",
        ":443",
        "crates.io:",
        "crates.io:0",
        "crates.io:99999",
        "crates.io/:443",
        "crates.io\\@evil:443",
        "crates .io:443",
        "crates.io%00.evil:443",
        "::1:443",
        "[::1:443",
        "[::1]x:443",
        "[fe80::1%eth0]:80",
        "-a.dev:443",
        "a..dev:443",
        "é.dev:443",
        "a_b.dev:443",
        "crates.io\r\nHost: x:443",
        "",
    ] {
        assert!(
            matches!(EgressTarget::parse(to), Err(EgressRefusal::Form(_))),
            "{to:?} was read as a host"
        );
    }
    let ip = EgressTarget::parse("[::ffff:7f00:1]:80").unwrap();
    assert!(opening(&[]).dialer.addresses(&ip).await.is_err());
}

#[tokio::test]
async fn names_that_carry_data_are_not_resolved() {
    let egress = resolving(&[&["1.1.1.1"]]);
    let chunk = "a".repeat(60);
    for name in [
        format!("{chunk}.{chunk}.t.dev"),
        "a.b.c.d.e.t.dev".to_owned(),
        format!("{}.t.dev", "a".repeat(64)),
        format!("{}.t.dev", [&*chunk; 5].join(".")),
    ] {
        let to = format!("{name}:443");
        assert!(asked(&egress, &["*.t.dev"], &to).await.is_err(), "{name}");
    }
}

#[tokio::test]
async fn the_gateway_and_the_api_server_are_no_targets() {
    let egress = resolving(&[&["10.96.0.1"]]);
    for (listed, to) in [
        (
            "codebutler-gateway.codebutler-system.svc:8443",
            "codebutler-gateway.codebutler-system.svc:8443",
        ),
        ("kubernetes.default.svc", "kubernetes.default.svc:443"),
        ("*.svc.cluster.local", "kubernetes.default.svc.cluster.local:443"),
        ("10.96.0.1", "10.96.0.1:443"),
        ("localhost:8443", "localhost:8443"),
        ("127.0.0.1:8443", "127.0.0.1:8443"),
    ] {
        let refusal = asked(&egress, &[listed], to).await.unwrap_err();
        assert!(matches!(refusal, EgressRefusal::Internal(_)), "{to}: {refusal}");
    }
}

#[test]
fn a_thread_has_a_limited_number_of_connections() {
    let egress = opening(&[]);
    let key = |name: &str| ThreadKey { namespace: "team".to_owned(), name: name.to_owned() };
    let mut held: Vec<ConnectionPermit> =
        (0..MOST).map(|_| egress.permit(&key("a")).unwrap()).collect();
    assert_eq!(egress.permit(&key("a")).err(), Some(EgressRefusal::TooMany));
    egress.permit(&key("b")).unwrap();
    held.pop();
    egress.permit(&key("a")).unwrap();
    drop(held);
    assert!(egress.connections.lock().is_empty());
}
