//! Judges before the build if the models' server can be connected to afterwards: by the way that the demo takes,
//! which is a proxy where the environment names one.

use std::net::{IpAddr, TcpStream, ToSocketAddrs as _};
use std::sync::mpsc;
use std::time::Duration;

/// Time limit for a connection, and for the look-up of the name and all its addresses.
const CONNECT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// Host and port of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    pub host: String,
    pub port: u16,
    is_https: bool,
}

impl ServerAddress {
    /// Parses an address of the web.
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.trim().split_once("://")?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        if !is_https && !scheme.eq_ignore_ascii_case("http") {
            return None;
        }
        let (host, port) = split_authority(rest);
        let port = port.map_or(Some(if is_https { 443 } else { 80 }), |port| port.parse().ok())?;
        (!host.is_empty()).then(|| Self { host: host.to_ascii_lowercase(), port, is_https })
    }

    fn is_here(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// Host and port of what stands behind `://`.
fn split_authority(rest: &str) -> (&str, Option<&str>) {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (host, port) = match authority.rsplit_once(':') {
        // The colons within an address of IPv6 are none before a port.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = port.filter(|port| !port.is_empty());
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

/// The way to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerRoute {
    Direct,
    Proxy {
        variable: &'static str,
        host: String,
        port: u16,
    },
    /// It can't be told without knowing more.
    Unknown,
}

/// What is in the way to a server that `variable` names, if it is known.
pub(crate) fn find_obstacle(
    server: &ServerAddress,
    variable: &str,
    env: &impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let ServerAddress { host, port, .. } = server;
    match find_route(server, env) {
        ServerRoute::Unknown => None,
        ServerRoute::Proxy { variable, host, port } => (!can_connect(&host, port)).then(|| {
            format!(
                "the proxy {host}:{port}, which {variable} names, can't be reached: correct it, or unset it where no \
                 proxy is needed"
            )
        }),
        ServerRoute::Direct if can_connect(host, *port) => None,
        ServerRoute::Direct if server.is_here() => Some(format!(
            "nothing answers at {host}:{port}, which {variable} names: start that server first, or name another one"
        )),
        ServerRoute::Direct => Some(format!(
            "{host}:{port}, which {variable} names, can't be reached: check the address and the network; where only a \
             proxy leads out, name it in HTTPS_PROXY"
        )),
    }
}

/// As the demo's own client chooses it.
fn find_route(server: &ServerAddress, env: &impl Fn(&str) -> Option<String>) -> ServerRoute {
    if server.is_here() {
        return ServerRoute::Direct;
    }
    // The client writes names in other letters, and what it makes of `%` is its own.
    if !server.host.is_ascii() || server.host.contains('%') {
        return ServerRoute::Unknown;
    }
    // An empty variable counts: the other spelling is not looked at.
    let set = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| Some((name, env(name)?.trim().to_owned())))
    };
    let own =
        if server.is_https { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    let mut named = [own, ["ALL_PROXY", "all_proxy"]].into_iter().filter_map(set);
    let Some((variable, proxy)) = named.find(|(_, proxy)| !proxy.is_empty()) else {
        return ServerRoute::Direct;
    };
    let none = set(["NO_PROXY", "no_proxy"]).map(|(_, none)| none).unwrap_or_default();
    if let Some(route) = none.split(',').find_map(|entry| without_proxy(&server.host, entry.trim()))
    {
        return route;
    }
    let (scheme, rest) = proxy.split_once("://").unwrap_or(("http", &proxy));
    if !["http", "https"].contains(&&*scheme.to_ascii_lowercase()) {
        return ServerRoute::Unknown;
    }
    match split_authority(rest) {
        (host, Some(port)) if !host.is_empty() => {
            port.parse().map_or(ServerRoute::Unknown, |port| ServerRoute::Proxy {
                variable,
                host: host.to_owned(),
                port,
            })
        }
        _ => ServerRoute::Unknown,
    }
}

/// The way to a host that an entry of `NO_PROXY` has without a proxy. Entries that not all programs understand, such
/// as `*.example`, decide nothing.
fn without_proxy(host: &str, entry: &str) -> Option<ServerRoute> {
    let entry = entry.to_ascii_lowercase();
    if entry == host {
        return Some(ServerRoute::Direct);
    }
    if host.parse::<IpAddr>().is_ok() {
        let may_match = entry == "*" || entry.contains(['/', ':']);
        return may_match.then_some(ServerRoute::Unknown);
    }
    let is_odd = entry.starts_with("*.");
    let name = entry.trim_start_matches("*.").trim_start_matches('.');
    let rest = host.strip_suffix(name).filter(|_| !name.is_empty());
    let holds = entry == "*" || rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    holds.then_some(if is_odd { ServerRoute::Unknown } else { ServerRoute::Direct })
}

/// False if it is known that no connection is possible.
fn can_connect(host: &str, port: u16) -> bool {
    let (tell, told) = mpsc::channel();
    let place = (host.to_owned(), port);
    // A look-up has no limit of its own.
    std::thread::spawn(move || {
        let connects = |address| TcpStream::connect_timeout(&address, CONNECT).is_ok();
        let _ = tell.send(place.to_socket_addrs().is_ok_and(|mut all| all.any(connects)));
    });
    told.recv_timeout(PATIENCE).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn address(url: &str) -> Option<(String, u16)> {
        ServerAddress::parse(url).map(|address| (address.host, address.port))
    }

    #[test]
    fn an_address_is_read_in_each_form() {
        for (url, host, port) in [
            ("https://openrouter.ai/api/v1", "openrouter.ai", 443),
            ("HTTP://ana:key@gpu:8000/v1?x=http://other", "gpu", 8000),
            ("http://[::1]:8080/v1", "::1", 8080),
            ("http://[::1]", "::1", 80),
            ("http://GPU:/v1", "gpu", 80),
        ] {
            assert_eq!(address(url), Some((host.to_owned(), port)), "{url}");
        }
        for url in ["models", "ftp://host/v1", "https:///v1", "https://host:port/v1"] {
            assert_eq!(address(url), None, "{url}");
        }
    }

    fn route(url: &str, variables: &[(&str, &str)]) -> ServerRoute {
        find_route(&ServerAddress::parse(url).unwrap(), &|name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_way_out_is_the_one_that_the_environment_names() {
        let out = "http://ana:hunter2@proxy.corp.example:3128/";
        let proxy = |variable| ServerRoute::Proxy {
            variable,
            host: "proxy.corp.example".to_owned(),
            port: 3128,
        };
        let far = "https://openrouter.ai/api/v1";
        assert_eq!(route(far, &[]), ServerRoute::Direct);
        assert_eq!(route(far, &[("https_proxy", out), ("HTTP_PROXY", "x")]), proxy("https_proxy"));
        assert_eq!(route(far, &[("ALL_PROXY", out)]), proxy("ALL_PROXY"));
        assert_eq!(route("http://gpu:8000/v1", &[("HTTPS_PROXY", out)]), ServerRoute::Direct);
        assert_eq!(route("http://localhost:8000/v1", &[("HTTP_PROXY", out)]), ServerRoute::Direct);
        let none = |hosts| [("HTTPS_PROXY", out), ("NO_PROXY", hosts)];
        for hosts in ["*", "x, .openrouter.ai", "OpenRouter.ai", "ai"] {
            assert_eq!(route(far, &none(hosts)), ServerRoute::Direct, "{hosts}");
        }
        assert_eq!(route(far, &none("router.ai,10.0.0.0/8")), proxy("HTTPS_PROXY"));
        assert_eq!(route("https://10.1.2.3/v1", &none("10.0.0.0/8")), ServerRoute::Unknown);
        // A port that only the client knows, and a kind of proxy that it may not know.
        for odd in ["proxy", "socks5://proxy:1080"] {
            assert_eq!(route(far, &[("HTTPS_PROXY", odd)]), ServerRoute::Unknown);
        }
    }

    #[test]
    fn what_the_client_may_see_otherwise_is_no_reason() {
        let out = "http://proxy.corp.example:3128";
        let far = "https://openrouter.ai/api/v1";
        // The client knows no such pattern, and goes by the proxy.
        assert_eq!(route(far, &[("HTTPS_PROXY", out), ("NO_PROXY", "*.ai")]), ServerRoute::Unknown);
        // To the client the first spelling that is set says it, empty as it is.
        assert_eq!(route(far, &[("HTTPS_PROXY", ""), ("https_proxy", out)]), ServerRoute::Direct);
        let both = [("HTTPS_PROXY", out), ("NO_PROXY", ""), ("no_proxy", "openrouter.ai")];
        assert!(matches!(route(far, &both), ServerRoute::Proxy { .. }));
        assert_eq!(
            route("https://10.1.2.3/v1", &[("HTTPS_PROXY", out), ("NO_PROXY", "*")]),
            ServerRoute::Unknown
        );
        assert_eq!(route("https://b\u{fc}cher.example/v1", &[]), ServerRoute::Unknown);
    }

    #[test]
    fn a_server_or_proxy_that_does_not_listen_is_named_without_a_password() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let here = ServerAddress::parse(&format!("http://127.0.0.1:{port}/v1")).unwrap();
        let nothing = |_: &str| None;
        assert_eq!(find_obstacle(&here, "OLLAMA_HOST", &nothing), None);
        let proxied = |name: &str| {
            (name == "HTTPS_PROXY").then(|| format!("http://ana:hunter2@127.0.0.1:{port}"))
        };
        let far = ServerAddress::parse("https://models.example/v1").unwrap();
        assert_eq!(find_obstacle(&far, "OPENAI_BASE_URL", &proxied), None);
        drop(listener);
        let said = find_obstacle(&here, "OLLAMA_HOST", &nothing).unwrap();
        assert!(
            said.starts_with(&format!("nothing answers at 127.0.0.1:{port}, which OLLAMA_HOST"))
        );
        let said = find_obstacle(&far, "OPENAI_BASE_URL", &proxied).unwrap();
        assert!(said.contains("which HTTPS_PROXY names, can't be reached"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}
