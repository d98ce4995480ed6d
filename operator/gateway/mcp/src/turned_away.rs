//! Requests that a server has not carried out, in words that say so and what comes next.

use std::sync::Arc;
use std::time::Duration;

use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_mcp::McpError;
use jiff::Timestamp;

use super::McpServers;
use super::ask::explain_failure;
use super::link::LinkError;
use super::masking::WordGuard;
use super::refusal::McpRefusal;
use super::session_key::ServerPlace;

/// The wait that is asked for where the server names none.
const USUAL: &str = "in a minute";
/// A longer wait than this is no use to a run.
const LONGEST: u64 = 24 * 3600;

/// The refusal of a request that a server can't be sent, or has turned away before it looked at it. A person is asked
/// for what is missing.
pub(crate) async fn refuse_request(
    servers: &Arc<McpServers>,
    caller: &ProvenCaller,
    place: &ServerPlace,
    (tool, error): (&str, &LinkError),
    guard: &WordGuard,
) -> McpRefusal {
    let why = explain_failure(servers, caller, place, error, guard).await;
    let (server, tool) = (place.spec.name.clone(), tool.to_owned());
    match error {
        LinkError::Starting(waits) => {
            McpRefusal::Starting { server, tool, waits: guard.error(waits) }
        }
        LinkError::Scope { .. } => McpRefusal::NoRight { tool, why },
        LinkError::Server(McpError::Status { status: 429, retry_after, .. }) => {
            let when = tell_when(retry_after.as_deref(), Timestamp::now());
            McpRefusal::Limited { tool, why, when }
        }
        _ => McpRefusal::Away { server, why },
    }
}

/// The time of header `Retry-After`, which has seconds or a date.
fn tell_when(retry_after: Option<&str>, now: Timestamp) -> String {
    let Some(said) = retry_after.map(str::trim) else { return USUAL.to_owned() };
    let seconds = said.parse::<u64>().ok().or_else(|| {
        let date = jiff::fmt::rfc2822::parse(said).ok()?.timestamp();
        Some(Duration::try_from(date.duration_since(now)).map_or(0, |left| left.as_secs()))
    });
    match seconds {
        None => USUAL.to_owned(),
        Some(0) => "now".to_owned(),
        Some(seconds @ 1..=120) => format!("in {seconds} s"),
        Some(seconds) if seconds <= LONGEST => format!("in {} minutes", seconds.div_ceil(60)),
        Some(_) => "tomorrow".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_try_again_is_the_servers() {
        let now: Timestamp = "2015-10-21T07:27:30Z".parse().unwrap();
        for (said, when) in [
            (None, USUAL),
            (Some("30"), "in 30 s"),
            (Some(" 600 "), "in 10 minutes"),
            (Some("0"), "now"),
            (Some("99999999"), "tomorrow"),
            (Some("Wed, 21 Oct 2015 07:28:00 GMT"), "in 30 s"),
            (Some("Wed, 21 Oct 2015 07:00:00 GMT"), "now"),
            (Some("soon"), USUAL),
            (Some("-5"), USUAL),
        ] {
            assert_eq!(tell_when(said, now), when, "{said:?}");
        }
    }
}
