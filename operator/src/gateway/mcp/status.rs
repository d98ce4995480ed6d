//! Servers in the Repo's status: an entry for each, one condition for all of them, and an event when that changes.

use codebutler_crds::Repo;
use codebutler_crds::condition::MCP_SERVERS_READY;
use codebutler_crds::mcp::McpServerStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Patch;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::look::{FailureKind, ServerOutcome};
use crate::apply::shorten_text;
use crate::gateway::conditions::{ConditionFinding, ConditionWriter};
use crate::gateway::writes;

/// Attempts against other writers of the same status.
const ATTEMPTS: u32 = 8;
/// Bytes of the condition's message.
const MESSAGE: usize = 4000;
/// Message of a server that has not been started.
const WAITS: &str = "it starts when it is first used";

/// One server as it stands; no outcome where there is no certain one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerStanding {
    /// Name in `spec.mcpServers`.
    pub name: String,
    /// The latest outcome that counts.
    pub outcome: Option<ServerOutcome>,
}

/// The condition's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServersVerdict {
    /// All can be used.
    pub is_ready: bool,
    /// Reason of the condition.
    pub reason: &'static str,
    /// Its message.
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
        Some(ServerOutcome::Fails { message, .. }) => {
            // Its version and tools at its last answer are still the best guess.
            let known = before.cloned().unwrap_or_default();
            (false, known.version, known.tools, message.clone())
        }
    };
    let is_same = |entry: &&McpServerStatus| {
        entry.ready == ready && (entry.message == WAITS) == (message == WAITS)
    };
    let since = before.filter(is_same).and_then(|entry| entry.since.clone());
    let since = Some(since.unwrap_or_else(|| now.clone()));
    Some(McpServerStatus { name: standing.name.clone(), ready, version, tools, since, message })
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
    let entry = |name: &str| entries.iter().find(|entry| entry.name == name);
    let (mut failing, mut usable, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for ServerStanding { name, outcome } in standings {
        match outcome {
            Some(ServerOutcome::Fails { kind, message }) => {
                let since = entry(name).and_then(|entry| entry.since.as_ref());
                let since = since.map(|since| format!(" since {:.0}", since.0)).unwrap_or_default();
                failing.push(format!("`{name}` can't be used{since}: {message}"));
                kinds.push(*kind);
            }
            Some(ServerOutcome::Waits) => usable.push(format!("`{name}`: {WAITS}")),
            Some(ServerOutcome::Answers { version, tools, .. }) => {
                let version =
                    if version.is_empty() { String::new() } else { format!(" {version}") };
                let tools =
                    if *tools == 1 { "1 tool".to_owned() } else { format!("{tools} tools") };
                usable.push(format!("`{name}`{version} has {tools}"));
            }
            None => {}
        }
    }
    let is_certain = standings.iter().all(|standing| standing.outcome.is_some());
    if failing.is_empty() && !is_certain {
        return None;
    }
    let reason = match &*kinds {
        [] => "McpServersReady",
        kinds if kinds.iter().all(|kind| *kind == FailureKind::SignIn) => "McpSignInNeeded",
        _ => "McpServerNotReady",
    };
    let is_ready = failing.is_empty();
    let message = shorten_text(&[failing, usable].concat().join("; "), MESSAGE);
    Some(ServersVerdict { is_ready, reason, message })
}

/// Brings the Repo's status up to date. `was_ready`: the condition that was written last. Answers what it is now.
pub async fn publish_servers(
    client: &Client,
    conditions: &ConditionWriter,
    repo: &Repo,
    (standings, was_ready): (&[ServerStanding], Option<bool>),
) -> Option<bool> {
    let entries = match update_entries(client, repo, standings).await {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(repo = repo.name_any(), %error, "the status of servers is not written");
            return was_ready;
        }
    };
    if standings.is_empty() {
        conditions.forget(repo, MCP_SERVERS_READY).await;
        return None;
    }
    let Some(verdict) = judge_servers(standings, &entries) else { return was_ready };
    let ServersVerdict { is_ready, reason, message } = &verdict;
    let finding = ConditionFinding {
        type_: MCP_SERVERS_READY,
        holds: Some(*is_ready),
        reason,
        message,
        event: reason,
    };
    if !conditions.servers(repo, &finding).await {
        return was_ready;
    }
    if *is_ready && was_ready == Some(false) {
        conditions.note(repo, reason, message).await;
    }
    Some(*is_ready)
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
        ServerStanding { name: name.to_owned(), outcome }
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
        let verdict = judge_servers(&standings[..2], &[]).unwrap();
        assert_eq!((verdict.is_ready, verdict.reason), (true, "McpServersReady"));
        assert_eq!(
            verdict.message,
            "`docs` 1.2.0 has 1 tool; `db`: it starts when it is first used"
        );
        let failing = [
            standing("docs", Some(answers(1))),
            standing("issues", Some(fails(FailureKind::SignIn))),
            standing("new", None),
        ];
        let entries = write_entries(&failing, &[], &at(0));
        let verdict = judge_servers(&failing, &entries).unwrap();
        assert_eq!((verdict.is_ready, verdict.reason), (false, "McpSignInNeeded"));
        assert_eq!(
            verdict.message,
            "`issues` can't be used since 1970-01-01T00:00:00Z: it is away; `docs` 1.2.0 has 1 tool"
        );
        let both = [failing[1].clone(), standing("db", Some(fails(FailureKind::Entry)))];
        assert_eq!(judge_servers(&both, &[]).unwrap().reason, "McpServerNotReady");
    }
}
