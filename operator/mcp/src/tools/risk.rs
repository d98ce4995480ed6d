//! The approval that a tool needs. A server's hints can only make its tools stricter than the Repo says, except that
//! a tool may be called read-only where the Repo says nothing.

use super::pattern::NamePatterns;
use super::{ServerTool, ToolHints};

/// Approval that a call needs, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolRisk {
    /// No approval: the tool changes nothing.
    Runs,
    /// A yes the first time in a thread: others can see what it does.
    AsksOnce,
    /// A yes each time, with the exact arguments.
    AsksAlways,
}

/// A Repo's rule for some tools.
#[derive(Clone, Debug)]
pub struct RiskOverride {
    /// The server's own names of the tools.
    pub tools: NamePatterns,
    /// Approval that these tools need.
    pub risk: ToolRisk,
}

/// A risk and its reason, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RiskJudgement {
    /// Approval that the tool needs.
    pub risk: ToolRisk,
    /// Reason for the risk, for people.
    pub reason: &'static str,
    /// A rule of the Repo decides, and not a hint of the server.
    pub is_ruled: bool,
}

/// Judges a tool. Where several overrides name it, the strictest holds.
pub fn judge_risk(tool: &ServerTool, overrides: &[RiskOverride]) -> RiskJudgement {
    let named =
        overrides.iter().filter(|one| one.tools.matches(&tool.name)).map(|one| one.risk).max();
    if let Some(risk) = named {
        return RiskJudgement { risk, reason: "the Repo says so", is_ruled: true };
    }
    let (risk, reason) = match tool.hints {
        ToolHints { destructive: true, .. } => {
            (ToolRisk::AsksAlways, "its server says that it may destroy something")
        }
        ToolHints { read_only: true, .. } => {
            (ToolRisk::Runs, "its server says that it changes nothing")
        }
        _ => (ToolRisk::AsksOnce, "its server does not say that it changes nothing"),
    };
    RiskJudgement { risk, reason, is_ruled: false }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(annotations: Value) -> ServerTool {
        let mut item = json!({"name": "drop_table"});
        item["annotations"] = annotations;
        ServerTool::read(item.as_object().unwrap(), 100, 100).unwrap()
    }

    #[test]
    fn hints_decide_where_the_repo_is_silent() {
        for (annotations, expected) in [
            (json!({}), ToolRisk::AsksOnce),
            (json!({"readOnlyHint": true}), ToolRisk::Runs),
            (json!({"readOnlyHint": false}), ToolRisk::AsksOnce),
            (json!({"destructiveHint": true}), ToolRisk::AsksAlways),
            (json!({"destructiveHint": true, "readOnlyHint": true}), ToolRisk::AsksAlways),
        ] {
            assert_eq!(judge_risk(&tool(annotations), &[]).risk, expected);
        }
    }

    #[test]
    fn a_server_can_not_declare_itself_harmless_where_the_repo_says_otherwise() {
        let says = |pattern: &str, risk| RiskOverride {
            tools: NamePatterns::new(&[pattern]).unwrap(),
            risk,
        };
        let harmless = tool(json!({"readOnlyHint": true}));
        let strict = [says("drop_*", ToolRisk::AsksAlways), says("*", ToolRisk::Runs)];
        let judged = judge_risk(&harmless, &strict);
        assert_eq!((judged.risk, judged.reason), (ToolRisk::AsksAlways, "the Repo says so"));
        let other = [says("read_*", ToolRisk::AsksAlways)];
        assert_eq!(judge_risk(&harmless, &other).risk, ToolRisk::Runs);
    }
}
