//! Decides what an AgentRole's status says. Pure.

use codebutler_crds::role::TOOLS;
use codebutler_crds::{AgentRole, AgentRoleStatus};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::controller::health::{Health, Level, Notice};

/// What is to be told of an AgentRole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// Its whole status: nobody else writes it.
    pub status: AgentRoleStatus,
    /// Events, once the status is written.
    pub notices: Vec<Notice>,
}

impl Plan {
    /// The merge patch that writes the status; nothing if it is written already.
    pub fn patch(&self, before: Option<&AgentRoleStatus>) -> Option<Value> {
        (before != Some(&self.status)).then(|| json!(self.status))
    }
}

/// What is to be told of `role` at `now`.
pub fn desired(role: &AgentRole, now: Timestamp) -> Plan {
    let mut status = role.status.clone().unwrap_or_default();
    if role.metadata.deletion_timestamp.is_some() {
        return Plan { status, notices: Vec::new() };
    }
    let ready = Health::new(Level::Ready, "Valid", "can be named by Repos");
    let verdict = Health::worst(unknown_tools(role), ready);
    let notices = verdict.notice(&status.conditions).into_iter().collect();
    verdict.write(&mut status.conditions, role.metadata.generation, now);
    status.observed_generation = role.metadata.generation;
    Plan { status, notices }
}

fn unknown_tools(role: &AgentRole) -> Vec<Health> {
    let allowed = role.spec.tools.allow.iter().enumerate();
    let unknown = allowed.filter(|(_, tool)| !TOOLS.contains(&tool.as_str()));
    let problem = |(i, tool): (usize, &String)| {
        let tool = crate::apply::shortened(tool, 60);
        let message = format!(
            "spec.tools.allow[{i}]: there is no tool `{tool}`; the tools are {}",
            TOOLS.join(", ")
        );
        Health::new(Level::Stalled, "UnknownTool", message)
    };
    unknown.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::testing;

    #[test]
    fn a_tool_that_does_not_exist_stalls_the_role_and_is_named() {
        let now = testing::now();
        let mut role = testing::role("coder");
        let fine = desired(&role, now);
        insta::assert_yaml_snapshot!("role_valid", fine);
        role.status = Some(fine.status.clone());
        assert_eq!(desired(&role, now).patch(role.status.as_ref()), None, "nothing changed");

        role.spec.tools.allow.push("Teleport".to_owned());
        role.metadata.generation = Some(2);
        insta::assert_yaml_snapshot!("role_unknown_tool", desired(&role, now));
    }
}
