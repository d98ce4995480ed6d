//! Servers in the Repo's status: an entry for each, one condition for all of them, and an event when that changes.

use codebutler_crds::Repo;
use codebutler_crds::condition::MCP_SERVERS_READY;
use codebutler_crds::mcp::McpServerStatus;
use codebutler_gateway_core::conditions::{ConditionFinding, ConditionWriter};
use codebutler_gateway_core::writes;
use codebutler_runtime::apply::shorten_text;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Patch;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::health_check::{FailureKind, ServerOutcome};

/// Attempts against other writers of the same status.
const ATTEMPTS: u32 = 8;
/// Bytes of the condition's message.
const MESSAGE: usize = 4000;
/// Message of a server that has not been started.
const WAITS: &str = "not started yet; starts on first use";
/// Beginning of the message of one that is starting.
const STARTS: &str = "is starting: ";

/// State of one server; no outcome where there is no certain one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerStanding {
    /// Name in `spec.mcpServers`.
    pub name: String,
    /// The latest outcome that counts.
    pub outcome: Option<ServerOutcome>,
    /// The fingerprint with which a role's session had this outcome; empty where a check had it.
    pub used_spec: String,
}

impl ServerStanding {
    /// A server of which checks alone say something, or nothing does.
    pub(crate) const fn seen(name: String, outcome: Option<ServerOutcome>) -> Self {
        Self { name, outcome, used_spec: String::new() }
    }
}

/// The state of all servers of a Repo together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServersState {
    /// All servers have answered.
    Ready,
    /// Servers that were asked or used have answered; others were never started.
    NotStarted,
    /// At least one server can't be used.
    Failing,
}

impl ServersState {
    const fn holds(self) -> Option<bool> {
        match self {
            Self::Ready => Some(true),
            Self::NotStarted => None,
            Self::Failing => Some(false),
        }
    }
}

/// Content of the condition about servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServersVerdict {
    /// State of all servers together.
    pub state: ServersState,
    /// Reason of the condition, in CamelCase.
    pub reason: &'static str,
    /// Message of the condition, for people.
    pub message: String,
}

/// The status of one server. What is not certain stays as it was.
fn write_entry(
    standing: &ServerStanding,
    before: &[McpServerStatus],
    now: &Time,
) -> Option<McpServerStatus> {
    let before = before.iter().find(|entry| entry.name == standing.name);
    let (ready, version, tools, message) = match &standing.outcome {
        None => return before.cloned(),
        Some(ServerOutcome::Answers { version, tools, remark }) => {
            (true, version.clone(), *tools, remark.clone())
        }
        Some(ServerOutcome::Waits) => (false, String::new(), 0, WAITS.to_owned()),
        Some(ServerOutcome::Starts(waits)) => (false, String::new(), 0, format!("{STARTS}{waits}")),
        Some(ServerOutcome::Fails { message, .. }) => {
            // Version and tools of the last answer are still the best guess.
            let known = before.cloned().unwrap_or_default();
            (false, known.version, known.tools, message.clone())
        }
    };
    let stage = |message: &str| (message == WAITS, message.starts_with(STARTS));
    let is_same =
        |entry: &&McpServerStatus| entry.ready == ready && stage(&entry.message) == stage(&message);
    let since = before.filter(is_same).and_then(|entry| entry.since.clone());
    let since = Some(since.unwrap_or_else(|| now.clone()));
    let (name, used_spec) = (standing.name.clone(), standing.used_spec.clone());
    Some(McpServerStatus { name, ready, version, tools, since, message, used_spec })
}

/// The outcome of the last use of a server that no session of this gateway's has used, as the status has it.
pub(crate) fn recall_outcome(
    entries: &[McpServerStatus],
    name: &str,
    fingerprint: &str,
) -> Option<ServerOutcome> {
    let entry = entries.iter().find(|entry| entry.name == name)?;
    if entry.used_spec != fingerprint {
        return None;
    }
    let McpServerStatus { version, tools, message, .. } = entry.clone();
    Some(if entry.ready {
        ServerOutcome::Answers { version, tools, remark: message }
    } else {
        ServerOutcome::Fails { kind: FailureKind::Server, message }
    })
}

fn write_entries(
    standings: &[ServerStanding],
    before: &[McpServerStatus],
    now: &Time,
) -> Vec<McpServerStatus> {
    standings.iter().filter_map(|standing| write_entry(standing, before, now)).collect()
}

/// The condition; nothing where it is not certain yet.
fn judge_servers(
    standings: &[ServerStanding],
    entries: &[McpServerStatus],
) -> Option<ServersVerdict> {
    let since = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name);
        let since = entry.and_then(|entry| entry.since.as_ref());
        since.map(|since| format!(" since {:.0}", since.0)).unwrap_or_default()
    };
    let (mut failing, mut usable, mut kinds, mut has_waiting) =
        (Vec::new(), Vec::new(), Vec::new(), false);
    for ServerStanding { name, outcome, .. } in standings {
        match outcome {
            Some(ServerOutcome::Fails { kind, message }) => {
                failing.push(format!("`{name}` can't be used{}: {message}", since(name)));
                kinds.push(*kind);
            }
            Some(ServerOutcome::Waits) => {
                has_waiting = true;
                usable.push(format!("`{name}`: {WAITS}"));
            }
            Some(ServerOutcome::Starts(waits)) => {
                has_waiting = true;
                usable.push(format!("`{name}` {STARTS}{waits}"));
            }
            Some(ServerOutcome::Answers { version, tools, remark }) => {
                usable.push(describe_usable(name, version, *tools, remark) + &since(name));
            }
            None => {}
        }
    }
    let is_certain = standings.iter().all(|standing| standing.outcome.is_some());
    if failing.is_empty() && !is_certain {
        return None;
    }
    let (state, reason) = match &*kinds {
        [] if has_waiting => (ServersState::NotStarted, "McpServersNotStarted"),
        [] => (ServersState::Ready, "McpServersReady"),
        kinds if kinds.iter().all(|kind| *kind == FailureKind::SignIn) => {
            (ServersState::Failing, "McpSignInNeeded")
        }
        _ => (ServersState::Failing, "McpServerNotReady"),
    };
    let message = shorten_text(&[failing, usable].concat().join("; "), MESSAGE);
    Some(ServersVerdict { state, reason, message })
}

fn describe_usable(name: &str, version: &str, tools: u32, remark: &str) -> String {
    let version = if version.is_empty() { String::new() } else { format!(" {version}") };
    let tools = if tools == 1 { "1 tool".to_owned() } else { format!("{tools} tools") };
    let remark = if remark.is_empty() { String::new() } else { format!(" ({remark})") };
    format!("`{name}`{version} has {tools}{remark}, ready")
}

/// Brings the Repo's status up to date. `before`: the condition that was written last. Answers what it is now.
pub(crate) async fn publish_servers(
    client: &Client,
    conditions: &ConditionWriter,
    repo: &Repo,
    (standings, before): (&[ServerStanding], Option<ServersState>),
) -> Option<ServersState> {
    let entries = match update_entries(client, repo, standings).await {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(repo = repo.name_any(), %error, "server_status_write_failed");
            return before;
        }
    };
    if standings.is_empty() {
        let is_gone = conditions.forget(repo, MCP_SERVERS_READY).await;
        return before.filter(|_| !is_gone);
    }
    let Some(verdict) = judge_servers(standings, &entries) else { return before };
    let ServersVerdict { state, reason, message } = &verdict;
    let finding = ConditionFinding {
        type_: MCP_SERVERS_READY,
        holds: state.holds(),
        reason,
        message,
        event: reason,
    };
    if !conditions.servers(repo, &finding).await {
        return before;
    }
    if *state == ServersState::Ready && before == Some(ServersState::Failing) {
        conditions.note(repo, reason, message).await;
    }
    Some(*state)
}

/// Writes the entries, and answers them.
async fn update_entries(
    client: &Client,
    repo: &Repo,
    standings: &[ServerStanding],
) -> Result<Vec<McpServerStatus>, kube::Error> {
    let time = Time(Timestamp::now());
    let listed = |repo: &Repo| repo.status.as_ref().map_or(&[][..], |s| &s.mcp_servers).to_vec();
    let cached = listed(repo);
    let wanted = write_entries(standings, &cached, &time);
    if wanted == cached {
        return Ok(cached);
    }
    let api: Api<Repo> = Api::namespaced(client.clone(), &repo.namespace().unwrap_or_default());
    let mut attempt = 1;
    loop {
        let found = api.get_opt(&repo.name_any()).await?;
        let Some(now) = found.filter(|now| now.uid() == repo.uid()) else { return Ok(Vec::new()) };
        let before = listed(&now);
        let wanted = write_entries(standings, &before, &time);
        if wanted == before {
            return Ok(before);
        }
        let patch = json!({
            "metadata": {"resourceVersion": now.resource_version()},
            "status": {"mcpServers": wanted},
        });
        match api
            .patch_status(&repo.name_any(), &writes::patch_params(), &Patch::Merge(patch))
            .await
        {
            Ok(_) => return Ok(wanted),
            Err(kube::Error::Api(refused)) if refused.code == 409 && attempt < ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(name: &str, outcome: Option<ServerOutcome>) -> ServerStanding {
        ServerStanding::seen(name.to_owned(), outcome)
    }

    fn answers(tools: u32) -> ServerOutcome {
        let (version, remark) = ("1.2.0".to_owned(), String::new());
        ServerOutcome::Answers { version, tools, remark }
    }

    fn fails(kind: FailureKind) -> ServerOutcome {
        ServerOutcome::Fails { kind, message: "it is away".to_owned() }
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn an_entry_keeps_its_time_until_it_flips() {
        let one = |outcome| [standing("docs", outcome)];
        let first = write_entries(&one(Some(answers(2))), &[], &at(100));
        assert_eq!(
            (first[0].ready, first[0].tools, first[0].since.clone()),
            (true, 2, Some(at(100)))
        );
        let more = write_entries(&one(Some(answers(3))), &first, &at(200));
        assert_eq!((more[0].tools, more[0].since.clone()), (3, Some(at(100))));
        let uncertain = write_entries(&one(None), &more, &at(300));
        assert_eq!(uncertain, more);
        let away = write_entries(&one(Some(fails(FailureKind::Server))), &more, &at(400));
        assert_eq!((away[0].ready, &*away[0].version, away[0].tools), (false, "1.2.0", 3));
        assert_eq!((away[0].since.clone(), &*away[0].message), (Some(at(400)), "it is away"));
        assert_eq!(write_entries(&[], &away, &at(500)), []);
    }

    #[test]
    fn the_condition_names_what_fails_first() {
        let standings = [
            standing("docs", Some(answers(1))),
            standing("db", Some(ServerOutcome::Waits)),
            standing("issues", None),
        ];
        assert_eq!(judge_servers(&standings, &[]), None);
        let entries = write_entries(&standings, &[], &at(0));
        let verdict = judge_servers(&standings[..1], &entries).unwrap();
        assert_eq!((verdict.state, verdict.reason), (ServersState::Ready, "McpServersReady"));
        let docs = "`docs` 1.2.0 has 1 tool, ready since 1970-01-01T00:00:00Z";
        assert_eq!(verdict.message, docs);
        let verdict = judge_servers(&standings[..2], &entries).unwrap();
        let waits = (ServersState::NotStarted, "McpServersNotStarted");
        assert_eq!((verdict.state, verdict.reason), waits);
        assert_eq!(verdict.message, format!("{docs}; `db`: not started yet; starts on first use"));
        let starts = ServerOutcome::Starts("its node pulls image `acme/db`".to_owned());
        let starts = [standing("docs", Some(answers(1))), standing("db", Some(starts))];
        let entries = write_entries(&starts, &entries, &at(0));
        let verdict = judge_servers(&starts, &entries).unwrap();
        assert_eq!((verdict.state, verdict.reason), waits);
        assert_eq!(
            verdict.message,
            format!("{docs}; `db` is starting: its node pulls image `acme/db`")
        );
        assert_eq!(entries[1].message, "is starting: its node pulls image `acme/db`");
        let failing = [
            standing("docs", Some(answers(1))),
            standing("issues", Some(fails(FailureKind::SignIn))),
            standing("new", None),
        ];
        let entries = write_entries(&failing, &[], &at(0));
        let verdict = judge_servers(&failing, &entries).unwrap();
        assert_eq!((verdict.state, verdict.reason), (ServersState::Failing, "McpSignInNeeded"));
        let away = "`issues` can't be used since 1970-01-01T00:00:00Z: it is away";
        assert_eq!(verdict.message, format!("{away}; {docs}"));
        let both = [failing[1].clone(), standing("db", Some(fails(FailureKind::Entry)))];
        assert_eq!(judge_servers(&both, &[]).unwrap().reason, "McpServerNotReady");
    }

    #[test]
    fn a_gateway_that_takes_over_goes_by_the_last_use_of_the_same_entry() {
        let used = |outcome| ServerStanding {
            used_spec: "a1".to_owned(),
            ..standing("db", Some(outcome))
        };
        for outcome in [answers(2), fails(FailureKind::Server)] {
            let entries = write_entries(&[used(outcome.clone())], &[], &at(0));
            assert_eq!(recall_outcome(&entries, "db", "a1"), Some(outcome));
            assert_eq!(recall_outcome(&entries, "db", "b2"), None, "another entry");
            assert_eq!(recall_outcome(&entries, "other", "a1"), None);
        }
        let looked =
            write_entries(&[standing("db", Some(fails(FailureKind::Server)))], &[], &at(0));
        assert_eq!(recall_outcome(&looked, "db", "a1"), None, "a check is simply made again");
    }
}
