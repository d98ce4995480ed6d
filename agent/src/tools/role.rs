//! The tools that a role has: its own, and those of the company's servers, which come and go.

use codebutler_guides::text::clip_text;
use codebutler_wire::{EditForm, RoleDecision, is_tool_pattern};
use serde_json::Value;

use super::{RoleTool, ToolFailure, all, conversation, family, thread};

/// All tools that a role has.
pub struct RoleTools {
    own: Vec<Box<dyn RoleTool>>,
    /// True if it may have tools of the Repo's servers.
    uses_servers: bool,
    /// Tools of servers that it is offered, in the order in which it came to know them.
    servers: Vec<Box<dyn RoleTool>>,
    /// Tools of servers that are called but not offered: the gateway knows if they exist.
    unlisted: Vec<Box<dyn RoleTool>>,
    /// Tool for reading back: every role has it, and is offered it when it is shown only a part of its conversation.
    back: Box<dyn RoleTool>,
    /// Form in which the tools are offered.
    form: EditForm,
    /// Decisions that the role may ask people for; `None` stands for all.
    decisions: Option<Vec<RoleDecision>>,
    /// Names of tools that are not offered now.
    useless: Vec<&'static str>,
}

impl RoleTools {
    /// Selects the tools with these names.
    pub fn new(names: &[String]) -> Self {
        let tools: Vec<_> =
            all().filter(|tool| names.iter().any(|name| name == tool.name())).collect();
        let known =
            |name: &str| is_tool_pattern(name) || tools.iter().any(|tool| tool.name() == name);
        for name in names.iter().filter(|name| !known(name)) {
            tracing::warn!(name, "tool_unknown");
        }
        Self {
            own: tools,
            uses_servers: names.iter().any(|name| is_tool_pattern(name)),
            servers: Vec::new(),
            unlisted: Vec::new(),
            back: Box::new(conversation::ReadBackTool),
            form: EditForm::default(),
            decisions: None,
            useless: Vec::new(),
        }
    }

    /// Limits the decisions that messages offer to those that the role may ask for.
    #[must_use]
    pub fn deciding(mut self, decisions: &[RoleDecision]) -> Self {
        self.decisions = Some(decisions.to_vec());
        self
    }

    /// From now on, offers the tools in the form that a family of models knows, without the useless ones. What is not
    /// offered still works.
    pub fn suit(&mut self, form: EditForm, useless: Vec<&'static str>) {
        (self.form, self.useless) = (form, useless);
    }

    /// Offers these tools of servers from now on, behind the role's own.
    pub fn serve(&mut self, tools: Vec<Box<dyn RoleTool>>) {
        self.servers = tools;
    }

    /// Admits calls of a server's tool that is not offered: a recorded call is carried out by a successor that does
    /// not know the tool.
    pub fn admit(&mut self, tool: Box<dyn RoleTool>) {
        if self.uses_servers && !self.has(tool.name()) {
            self.unlisted.push(tool);
        }
    }

    /// Names of all tools that may be called.
    pub fn names(&self) -> Vec<String> {
        self.own.iter().chain(&self.servers).map(|tool| tool.name().to_owned()).collect()
    }

    fn offered(&self) -> impl Iterator<Item = &dyn RoleTool> {
        let own = self.own.iter().filter(|tool| !self.useless.contains(&tool.name()));
        own.chain(&self.servers).map(AsRef::as_ref)
    }

    /// Names of the tools that are not offered.
    pub fn useless(&self) -> &[&'static str] {
        &self.useless
    }

    /// Form in which the tools are offered.
    pub fn form(&self) -> EditForm {
        self.form
    }

    /// Specifications of the tools that the model is offered.
    pub fn specs(&self) -> Vec<Value> {
        let spec = |tool: &dyn RoleTool| {
            let spec = family::spec_in_form(self.form, tool);
            match &self.decisions {
                Some(decisions) if tool.name() == thread::SEND => {
                    thread::limit_spec(spec, decisions)
                }
                _ => spec,
            }
        };
        self.offered().map(spec).collect()
    }

    /// Returns the name by which the model knows a tool.
    pub fn offered_name<'t>(&self, tool: &'t str) -> &'t str {
        family::name_in_form(self.form, tool)
    }

    /// Specification of the tool for reading back, for a model that is shown only a part of its conversation.
    pub fn back_spec(&self) -> Value {
        self.back.spec()
    }

    fn all(&self) -> impl Iterator<Item = &dyn RoleTool> {
        let own = self.own.iter().chain([&self.back]);
        own.chain(&self.servers).chain(&self.unlisted).map(AsRef::as_ref)
    }

    /// True if the role has a tool of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.all().any(|tool| tool.name() == name)
    }

    /// Finds a tool by name; otherwise returns the error for the model.
    pub fn find(&self, name: &str) -> Result<&dyn RoleTool, ToolFailure> {
        self.all().find(|tool| tool.name() == name).ok_or_else(|| {
            let names = self.own.iter().map(|tool| self.offered_name(tool.name()));
            let names: Vec<_> = names.collect();
            ToolFailure::Fault(format!(
                "there is no tool `{}`; you have {}",
                clip_text(name, 60),
                names.join(", ")
            ))
        })
    }
}
