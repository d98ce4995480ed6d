//! Options of programs that run on a Java virtual machine. It takes a proxy from system properties alone, and a pod
//! resolves no names without one. `JAVA_TOOL_OPTIONS` would reach each JVM, and make each say so in its output.

/// The variables with options of Maven, Gradle and sbt.
pub(super) const OPTIONS: [&str; 3] = [MAVEN, "GRADLE_OPTS", "SBT_OPTS"];
pub(super) const MAVEN: &str = "MAVEN_OPTS";
pub(super) const MAVEN_READS: &str = "useSystemProperties";
/// From 3.9 on Maven's own HTTP client does not look at them unless it is told to, and then warns at each download.
pub(super) const MAVEN_READS_PROXY: &str = "-Daether.connector.http.useSystemProperties=true \
    -Dorg.slf4j.simpleLogger.log.org.eclipse.aether.transport.http.HttpTransporter=error";

/// The options that name a proxy; none for one that is not named by host and port.
pub(super) fn proxy_options(proxy: &str) -> Option<String> {
    let (host, port) = proxy.strip_prefix("http://")?.trim_end_matches('/').rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    port.parse::<u16>().ok()?;
    let one = |scheme: &str| format!("-D{scheme}.proxyHost={host} -D{scheme}.proxyPort={port}");
    Some(format!("{} {}", one("http"), one("https")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_named_by_host_and_port() {
        let six = proxy_options("http://[::1]:8475").unwrap();
        assert!(six.starts_with("-Dhttp.proxyHost=::1 -Dhttp.proxyPort=8475 -Dhttps."), "{six}");
        assert_eq!(proxy_options(""), None);
        assert_eq!(proxy_options("http://proxy"), None);
    }
}
