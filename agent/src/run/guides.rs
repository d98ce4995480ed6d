//! Repository guidance: guides and policy of its base branch, read anew for each run. Invalid files are reported in
//! the thread once.

use std::collections::HashMap;

use codebutler_wire::{ErrorCode, PostMessage, show_tool_name};
use sha2::{Digest as _, Sha256};

use super::{Agent, RunError};
use crate::decisions::LoggedKind;
use crate::gateway::GatewayError;
use crate::memory::{
    KnownLearning, LearningEntry, MAX_MEMORY_LENGTH, MAX_MEMORY_TOKENS, MemoryCitation, MemoryPage,
    PlannedMemory, serve_apart,
};
use crate::prompt::{self, GuideFile, PromptGuides};
use crate::research::research_index;
use crate::toolbox::protocol::{RoleSurroundings, ToolboxReply, ToolboxRequest};
use codebutler_guides::policy::CommandPolicy;
use codebutler_guides::policy::rules::RiskRules;
use codebutler_guides::seeds;
use codebutler_guides::text::clip_text;

/// Text that warns people of content that imitates the system.
fn forged_note(what: &str) -> String {
    format!(
        "{what} has lines that imitate CodeButler's own (`[CodeButler]`, `[decision]`). The roles see them as quoted text; \
         they have no effect. Remove them if you did not write them."
    )
}

/// Repository folder of the guides.
const FOLDER: &str = ".codebutler";

impl Agent {
    /// Logs which model answers in this run, the alternatives, and the reason.
    pub(super) fn note_model(&mut self) {
        let state = self.transcript.state();
        let run = state.run().map(|run| run.id.clone()).unwrap_or_default();
        let (chosen, why) = match (state.model(), self.session.complexity) {
            (Some(model), _) => (model.to_owned(), "a user chose it".to_owned()),
            (None, Some(complexity)) => {
                (self.session.model.clone(), format!("the approved plan says: {complexity:?} work"))
            }
            (None, None) => (self.session.model.clone(), "the role's default".to_owned()),
        };
        let others: Vec<_> = self.session.models.iter().filter(|model| **model != chosen).collect();
        let others: Vec<&str> = others.into_iter().map(String::as_str).collect();
        if !others.is_empty() {
            self.log.note(&run, LoggedKind::Model, &chosen, &others, &why);
        }
    }

    /// Collects the guides that CodeButler ships and those of the repository's base branch. The worktree itself is
    /// not read: whoever can write to it could speak to all roles. Files that can't be used, or are shown in part
    /// only, are reported.
    pub(super) async fn guides(&self, set_up: Option<String>) -> Result<PromptGuides, RunError> {
        let first = self.session.roles.first().is_some_and(|card| card.role == self.session.role);
        let role = format!("{}.md", self.session.role);
        // The planning role follows workflows, and the role that looks back improves them.
        let follows = first || self.session.tools.iter().any(|tool| tool == "ProposeLearnings");
        let of_first = async |file: &str| if follows { self.guide(file).await } else { Ok(None) };
        let (own, global, workflows, conventions, surroundings) = tokio::try_join!(
            self.guide(&role),
            self.guide("global.md"),
            of_first("workflows.md"),
            self.conventions(),
            self.surroundings()
        )?;
        let seed = |file: &str| seeds::find_seed(file).map(str::to_owned);
        let mut shipped: Vec<String> = seed(&role).into_iter().collect();
        // A repository's own workflows replace the shipped ones, which would only repeat or contradict them.
        let seeded = workflows.is_none() && follows;
        shipped.extend(seeded.then(|| seed("workflows.md")).flatten());
        let titles = match &workflows {
            Some(own) => prompt::section_titles(&own.text),
            None if first => prompt::section_titles(&seed("workflows.md").unwrap_or_default()),
            None => Vec::new(),
        };
        // A copy of the shipped guide adds nothing.
        let own = own.filter(|own| shipped.iter().all(|text| text.trim() != own.text.trim()));
        let (own, known, more) =
            self.serve([workflows, global, own].into_iter().flatten().collect()).await?;
        let (conventions, mut planned) = conventions;
        let (conventions, named) = self.part_conventions(conventions);
        planned.extend(more);
        let guides = PromptGuides {
            model: self.transcript.state().model().unwrap_or(&self.session.model).to_owned(),
            shipped,
            skills: None,
            workflows: titles,
            own,
            known,
            conventions,
            named,
            planned,
            templates: self.templates().await?,
            research: self.research().await?,
            set_up,
            surroundings,
            servers: false,
        };
        for cut in guides.cut() {
            self.tell_once("cut", &cut).await?;
        }
        for path in guides.forged() {
            self.tell_once("voice", &forged_note(&format!("`{path}`"))).await?;
        }
        Ok(guides)
    }

    /// Reads a file of the base branch's `.codebutler/`.
    async fn guide(&self, file: &str) -> Result<Option<GuideFile>, RunError> {
        let path = format!("{FOLDER}/{file}");
        match self.tools.toolbox.ask(ToolboxRequest::BaseGuide { file: file.to_owned() }).await? {
            ToolboxReply::Guide(text) => {
                let text = text.filter(|text| !text.trim().is_empty());
                Ok(text.map(|text| GuideFile { path, text }))
            }
            ToolboxReply::EarlierGuide { text, commit, why } => {
                self.tell_of_earlier(&path, &commit, &why).await?;
                Ok(Some(GuideFile { path, text }))
            }
            ToolboxReply::Failed(why) => Err(RunError::Repository(why)),
            ToolboxReply::Refused(why) => {
                let text = format!(
                    "`{path}` is invalid ({why}). I use the default until it is fixed on `{}`.",
                    self.session.base_branch
                );
                self.tell_once("guide", &text).await?;
                Ok(None)
            }
            other => {
                tracing::warn!(file, ?other, "guide_unusable");
                Ok(None)
            }
        }
    }

    /// Tells the thread that a file is invalid on the base branch, so that its last valid version is used.
    async fn tell_of_earlier(&self, path: &str, commit: &str, why: &str) -> Result<(), RunError> {
        let text = format!(
            "`{path}` is invalid ({why}). I use its version of {commit} until it is fixed on `{}`.",
            self.session.base_branch
        );
        self.tell_once("guide", &text).await
    }

    /// Selects the pages with valid learnings, the same before a plan and after it; and those about the files at
    /// hand, which are shown apart. Faulty learnings are left out and reported once.
    async fn serve(
        &self,
        pages: Vec<GuideFile>,
    ) -> Result<(Vec<GuideFile>, Vec<KnownLearning>, Vec<GuideFile>), RunError> {
        let read: Vec<_> = pages.iter().map(|page| MemoryPage::parse(&page.text)).collect();
        let planned = &self.session.planned;
        let learnings = read.iter().flat_map(MemoryPage::learnings);
        let citations: Vec<_> = learnings.flat_map(|one| one.citations.iter().cloned()).collect();
        let faults = self.find_faults(citations).await?;
        let fault = |one: &LearningEntry| {
            one.citations.iter().find_map(|cited| faults.get(&cited.to_string())).cloned()
        };
        let PlannedMemory { lasting, scoped } =
            serve_apart(&read, planned, MAX_MEMORY_LENGTH, fault);
        let mut wrong = Vec::new();
        let (mut served, mut known, mut apart) = (Vec::new(), Vec::new(), Vec::new());
        for (GuideFile { path, .. }, (page, scoped)) in
            pages.iter().zip(lasting.into_iter().zip(scoped))
        {
            wrong.extend(
                page.withheld.iter().map(|(line, why)| format!("- `{path}`, line {line}: {why}")),
            );
            if page.left_out > 0 {
                let text = format!(
                    "`{path}` has {} learnings too many: a role is shown {MAX_MEMORY_TOKENS} tokens of memory. Archive those \
                     that are no longer needed.",
                    page.left_out
                );
                self.tell_once("memory-full", &text).await?;
            }
            known.extend(
                page.served.into_iter().chain(scoped.served).map(|(id, claim)| KnownLearning {
                    id,
                    claim,
                    page: path.clone(),
                }),
            );
            served.push(GuideFile { path: path.clone(), text: page.text });
            if !scoped.text.is_empty() {
                apart.push(GuideFile { path: path.clone(), text: scoped.text });
            }
        }
        if !wrong.is_empty() {
            let text = format!(
                "These learnings are not used until they are fixed or archived on `{}`:\n{}",
                self.session.base_branch,
                clip_text(&wrong.join("\n"), 2000)
            );
            self.tell_once("memory", &text).await?;
        }
        Ok((served, known, apart))
    }

    /// Finds faults of citations, keyed by the citation's text; none if the toolbox can't tell.
    async fn find_faults(
        &self,
        citations: Vec<MemoryCitation>,
    ) -> Result<HashMap<String, String>, RunError> {
        if citations.is_empty() {
            return Ok(HashMap::new());
        }
        let shown: Vec<String> = citations.iter().map(ToString::to_string).collect();
        match self.tools.toolbox.ask(ToolboxRequest::CheckCitations { citations }).await? {
            ToolboxReply::Faults(faults) => {
                let found = shown.into_iter().zip(faults);
                Ok(found.filter_map(|(shown, fault)| Some((shown, fault?))).collect())
            }
            ToolboxReply::Failed(why) => Err(RunError::Repository(why)),
            other => {
                tracing::warn!(?other, request = "citations", "toolbox_request_failed");
                Ok(HashMap::new())
            }
        }
    }

    /// Reads the index of earlier research, for a role that can read it.
    async fn research(&self) -> Result<Option<String>, RunError> {
        if !self.session.tools.iter().any(|tool| tool == "ReadMemory") {
            return Ok(None);
        }
        match self.tools.toolbox.ask(ToolboxRequest::Research).await? {
            ToolboxReply::Research(pages) => Ok(research_index(&pages)),
            ToolboxReply::Failed(why) => Err(RunError::Repository(why)),
            other => {
                tracing::warn!(?other, request = "research", "toolbox_request_failed");
                Ok(None)
            }
        }
    }

    /// Reads the conventions of the whole repository, and those of the folders in the approved plan.
    async fn conventions(&self) -> Result<(Vec<GuideFile>, Vec<GuideFile>), RunError> {
        let everywhere = self.conventions_for(Vec::new()).await?;
        let planned = &self.session.planned;
        if planned.is_empty() {
            return Ok((everywhere, Vec::new()));
        }
        let mut nested = self.conventions_for(planned.clone()).await?;
        nested.retain(|one| !everywhere.contains(one));
        Ok((everywhere, nested))
    }

    async fn conventions_for(&self, planned: Vec<String>) -> Result<Vec<GuideFile>, RunError> {
        match self.tools.toolbox.ask(ToolboxRequest::Conventions { planned }).await? {
            ToolboxReply::Files(files) => {
                Ok(files.into_iter().map(|(path, text)| GuideFile { path, text }).collect())
            }
            ToolboxReply::Failed(why) => Err(RunError::Repository(why)),
            other => {
                tracing::warn!(?other, request = "conventions", "toolbox_request_failed");
                Ok(Vec::new())
            }
        }
    }

    /// Splits off the contribution guides: long, and of use to writers alone, so others are shown only their path.
    fn part_conventions(&self, all: Vec<GuideFile>) -> (Vec<GuideFile>, Vec<String>) {
        let writes = self.session.tools.iter().any(|tool| tool == "Edit" || tool == "Write");
        let (named, shown): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|guide| guide.path.contains("CONTRIBUTING"));
        let named = named.into_iter().filter(|_| writes).map(|guide| guide.path);
        (shown, named.collect())
    }

    /// Says once in the thread which tools returned text that imitates CodeButler.
    pub(super) async fn tell_of_forgers(&mut self) -> Result<(), RunError> {
        let forgers = self.transcript.state().forgers();
        let fresh: Vec<String> = forgers.difference(&self.forgers_told).cloned().collect();
        for tool in fresh {
            let text = forged_note(&format!("What the tool {} returned", show_tool_name(&tool)));
            self.tell_once("voice", &text).await?;
            self.forgers_told.insert(tool);
        }
        Ok(())
    }

    /// Reads the repository's pull request templates, for a role that opens pull requests.
    async fn templates(&self) -> Result<Vec<GuideFile>, RunError> {
        if !self.session.tools.iter().any(|tool| tool == "GHCreatePR") {
            return Ok(Vec::new());
        }
        match self.tools.toolbox.ask(ToolboxRequest::PullTemplates).await? {
            ToolboxReply::Files(files) => {
                Ok(files.into_iter().map(|(path, text)| GuideFile { path, text }).collect())
            }
            other => {
                tracing::warn!(?other, request = "pull_templates", "toolbox_request_failed");
                Ok(Vec::new())
            }
        }
    }

    /// Describes the repository's surroundings. None of it is essential: what is not known is left out.
    async fn surroundings(&self) -> Result<RoleSurroundings, RunError> {
        let programs = self.session.tools.iter().any(|tool| tool == "Bash");
        match self.tools.toolbox.ask(ToolboxRequest::Surroundings { programs }).await? {
            ToolboxReply::Surroundings(found) => {
                if found.branch_lost && !found.branch.is_empty() {
                    self.tell_once("branch", &found.branch).await?;
                }
                Ok(found)
            }
            other => {
                tracing::warn!(?other, request = "surroundings", "toolbox_request_failed");
                Ok(RoleSurroundings::default())
            }
        }
    }

    /// Posts a problem of the repository in the thread, the same words only once.
    pub(super) async fn tell_once(&self, what: &str, text: &str) -> Result<(), RunError> {
        tracing::warn!(what, "repository_problem_posted");
        let key = format!("{what}.{}", &hex::encode(Sha256::digest(text))[..16]);
        let message = PostMessage { key, text: text.to_owned(), ..PostMessage::default() };
        match self.tools.gateway.post(&message).await {
            // A role that may not post: the problem is in the log.
            Ok(_) | Err(GatewayError::Refused { code: ErrorCode::Forbidden, .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the base branch's `policy.json`. An invalid one is reported once, and counts as none.
    pub(super) async fn read_policy(&self) -> Result<CommandPolicy, RunError> {
        let file = ToolboxRequest::BaseGuide { file: "policy.json".to_owned() };
        let parsed = match self.tools.toolbox.ask(file).await? {
            ToolboxReply::Guide(text) => {
                let rules = RiskRules::parse(text.as_deref().unwrap_or("{}"));
                rules.map_err(|error| error.to_string())
            }
            ToolboxReply::EarlierGuide { text, commit, why } => {
                let path = format!("{FOLDER}/policy.json");
                self.tell_of_earlier(&path, &commit, &why).await?;
                RiskRules::parse(&text).map_err(|error| error.to_string())
            }
            ToolboxReply::Failed(why) => return Err(RunError::Repository(why)),
            ToolboxReply::Refused(why) => Err(why),
            other => Err(format!(
                "the toolbox gave a strange answer: {}",
                clip_text(&format!("{other:?}"), 60)
            )),
        };
        let rules = match parsed {
            Ok(rules) => rules,
            Err(why) => {
                let text = format!(
                    "`.codebutler/policy.json` is invalid ({why}). Only the built-in rules count until it is fixed on `{}`.",
                    self.session.base_branch
                );
                self.tell_once("policy", &text).await?;
                RiskRules::default()
            }
        };
        Ok(CommandPolicy { rules, overrides: self.session.tool_overrides.clone() })
    }
}
