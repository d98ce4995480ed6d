//! Follows references from the files of a commit that steer roles to the files that they lead on to.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::steers_roles;
use crate::command::{CommandError, GitRepository};
use crate::quarantine::ObjectReader;

/// Bytes of a file that is searched for references, and of what a link says.
const MAX_FILE: u64 = 256 * 1024;
const MAX_LINK: u64 = 4096;
/// Files that are read of a commit.
const MAX_READ: usize = 2_000;
/// References after one another, as other tools follow them; and links on the way to one file, as Linux does.
const MAX_DEPTH: u8 = 5;
const MAX_HOPS: u8 = 40;
/// References in a file, and paths that are looked up of a commit.
const MAX_REFERENCES: usize = 200;
const MAX_LOOKUPS: usize = 5_000;
/// Extensions of text files, which are searched for references; other files may be pictures.
const TEXTS: [&str; 6] = ["md", "mdc", "mdx", "markdown", "rst", "txt"];

/// Files and folders that files which steer roles lead on to, each with the first of those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SteeringLeads {
    pub by_target: BTreeMap<String, String>,
    /// True if the search hit a limit and is incomplete.
    pub is_cut: bool,
}

impl SteeringLeads {
    /// The file that steers roles and leads to this path, or to a folder around it.
    pub fn leading_to(&self, path: &str) -> Option<&str> {
        let around = path.match_indices('/').map(|(at, _)| &path[..at]);
        let by = around.chain([path]).find_map(|path| self.by_target.get(path));
        by.map(String::as_str)
    }

    /// Follows what there is in a commit, too.
    pub(super) async fn add(
        &mut self,
        git: &GitRepository,
        commit: &str,
    ) -> Result<(), CommandError> {
        let listed = git.run(&["ls-tree", "-r", "-z", "--full-tree", commit], b"").await?;
        let tree = ListedTree::of(&listed);
        let (reader, links) = (ObjectReader::open(git)?, HashMap::new());
        LeadWalk { tree: &tree, reader, leads: self, links, lookups: 0 }.follow_all().await
    }
}

/// A file, a link or a submodule of a tree.
#[derive(Clone, Copy)]
struct TreeFile<'a> {
    path: &'a str,
    id: &'a str,
    kind: TreeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TreeKind {
    File,
    Link,
    /// Submodule: its content is in another repository.
    Module,
}

/// Tree of a commit with all its files, in the order of their paths.
struct ListedTree<'a>(Vec<TreeFile<'a>>);

impl<'a> ListedTree<'a> {
    /// Skips paths that are not UTF-8: no text can refer to them.
    fn of(listed: &'a [u8]) -> Self {
        let lines = listed.split(|byte| *byte == 0).filter_map(|line| str::from_utf8(line).ok());
        let read = |line: &'a str| {
            let (facts, path) = line.split_once('\t')?;
            let mut facts = facts.split(' ');
            let (mode, _, id) = (facts.next()?, facts.next()?, facts.next()?);
            let kind = match mode {
                "120000" => TreeKind::Link,
                "160000" => TreeKind::Module,
                _ => TreeKind::File,
            };
            Some(TreeFile { path, id, kind })
        };
        Self(lines.filter_map(read).collect())
    }

    fn file(&self, path: &str) -> Option<TreeFile<'a>> {
        let at = self.0.binary_search_by(|file| file.path.cmp(path)).ok()?;
        self.0.get(at).copied()
    }

    fn has_folder(&self, path: &str) -> bool {
        let within = format!("{path}/");
        let at = self.0.partition_point(|file| file.path < within.as_str());
        self.0.get(at).is_some_and(|file| file.path.starts_with(&within))
    }
}

/// A file that is looked into.
struct Visit<'a> {
    file: TreeFile<'a>,
    /// The one that steers roles by its own name.
    root: &'a str,
    depth: u8,
}

struct LeadWalk<'a, 'l> {
    tree: &'a ListedTree<'a>,
    reader: ObjectReader,
    leads: &'l mut SteeringLeads,
    /// Cached targets of symbolic links, by object id.
    links: HashMap<&'a str, Option<String>>,
    lookups: usize,
}

impl<'a> LeadWalk<'a, '_> {
    async fn follow_all(&mut self) -> Result<(), CommandError> {
        let roots = self.tree.0.iter().filter(|file| steers_roles(file.path));
        let mut waiting: VecDeque<_> =
            roots.map(|&file| Visit { file, root: file.path, depth: 0 }).collect();
        let mut seen: HashMap<&str, u8> = HashMap::new();
        while let Some(visit) = waiting.pop_front() {
            if seen.get(visit.file.path).is_some_and(|depth| *depth <= visit.depth) {
                continue;
            }
            seen.insert(visit.file.path, visit.depth);
            if seen.len() > MAX_READ || self.lookups > MAX_LOOKUPS {
                self.leads.is_cut = true;
                return Ok(());
            }
            for path in self.targets(&visit).await? {
                for found in self.resolve(&path).await? {
                    // Links on the way were followed as far as this path needs them.
                    let next = self.tree.file(&found).filter(|file| file.kind == TreeKind::File);
                    let depth = visit.depth + 1;
                    let new = next.filter(|file| seen.get(file.path).is_none_or(|at| *at > depth));
                    match new {
                        Some(_) if depth > MAX_DEPTH => self.leads.is_cut = true,
                        Some(file) => waiting.push_back(Visit { file, depth, root: visit.root }),
                        None => {}
                    }
                    if found != visit.root {
                        let by = self.leads.by_target.entry(found);
                        by.or_insert_with(|| visit.root.to_owned());
                    }
                }
            }
        }
        Ok(())
    }

    /// Paths that a file names, not looked up yet.
    async fn targets(&mut self, visit: &Visit<'a>) -> Result<Vec<String>, CommandError> {
        let TreeFile { path, id, kind } = visit.file;
        match kind {
            TreeKind::Link => return Ok(self.link(path, id).await?.into_iter().collect()),
            TreeKind::Module => return Ok(Vec::new()),
            TreeKind::File => {}
        }
        let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
        // `.cursorrules` has no ending.
        let ending = name.trim_start_matches('.').rsplit_once('.').map(|(_, ending)| ending);
        if ending.is_some_and(|ending| !TEXTS.contains(&ending)) {
            return Ok(Vec::new());
        }
        let Some(text) = self.reader.read_or_skip(id, MAX_FILE).await? else {
            self.leads.is_cut = true;
            return Ok(Vec::new());
        };
        let mut names = find_references(&String::from_utf8_lossy(&text));
        self.leads.is_cut |= names.len() > MAX_REFERENCES;
        names.truncate(MAX_REFERENCES);
        // Beside the file, as other tools have it; a role may as well look from the top, or from where a link is.
        let folders = [folder_of(path), folder_of(visit.root), ""];
        let beside = |name: &String| folders.map(|folder| join(folder, name));
        Ok(names.iter().flat_map(beside).collect())
    }

    /// Resolves a symbolic link; None if it leads out of the repository.
    async fn link(&mut self, path: &str, id: &'a str) -> Result<Option<String>, CommandError> {
        if !self.links.contains_key(id) {
            let said = self.reader.read_or_skip(id, MAX_LINK).await?.unwrap_or_default();
            let target = String::from_utf8(said).ok().filter(|target| !target.starts_with('/'));
            self.links.insert(id, target);
        }
        let target = self.links.get(id).and_then(Option::as_ref);
        Ok(target.map(|target| join(folder_of(path), target)))
    }

    /// Resolves a path, and returns it with the links on the way; empty if it does not exist.
    async fn resolve(&mut self, path: &str) -> Result<Vec<String>, CommandError> {
        let mut found = Vec::new();
        self.lookups += 1;
        let (mut at, mut left, mut hops) = (String::new(), parts_of(path), 0);
        while let Some(part) = left.pop_front() {
            if part == ".." {
                if at.is_empty() {
                    return Ok(Vec::new());
                }
                at.truncate(folder_of(&at).len());
                continue;
            }
            let next = join(&at, &part);
            match self.tree.file(&next) {
                Some(module) if module.kind == TreeKind::Module => {
                    found.push(next);
                    return Ok(found);
                }
                Some(link) if link.kind == TreeKind::Link => {
                    hops += 1;
                    let target = self.link(link.path, link.id).await?;
                    let (Some(target), ..=MAX_HOPS) = (target, hops) else { return Ok(found) };
                    let rest = std::mem::take(&mut left);
                    left = parts_of(&target).into_iter().chain(rest).collect();
                    at.clear();
                    found.push(next);
                }
                _ => at = next,
            }
        }
        let is_there = self.tree.file(&at).is_some() || self.tree.has_folder(&at);
        if is_there && !at.is_empty() {
            found.push(at);
        }
        Ok(found)
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn parts_of(path: &str) -> VecDeque<String> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
}

/// Words such as `@docs/style.md`. Those that name no file are people or packages.
fn find_references(text: &str) -> Vec<String> {
    let word = |word: &str| {
        let name =
            word.trim_start_matches(['(', '[', '"', '\'', '`', '*', '_']).strip_prefix('@')?;
        let end =
            |c: char| matches!(c, '.' | ',' | ';' | ':' | '!' | '?') || ")]\"'`*_>".contains(c);
        let name = name.split('#').next()?.trim_end_matches(end);
        (!name.is_empty() && name.len() <= 1000 && !name.starts_with(['~', '/']))
            .then(|| name.to_owned())
    };
    let mut found: Vec<String> = text.split_whitespace().filter_map(word).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestRepository;

    const CONVENTIONS: &str = "Use tabs.\n\nSee @docs/style.md, and ask @ana (@docs/gone.md).\n";

    async fn leads(shop: &TestRepository, commit: &str) -> SteeringLeads {
        let mut leads = SteeringLeads::default();
        leads.add(&shop.git(), commit).await.unwrap();
        leads
    }

    #[tokio::test]
    async fn what_links_and_references_lead_to_steers_roles_too() {
        let shop = TestRepository::new();
        let files = shop.commit(
            &[],
            &[
                ("CLAUDE.md", CONVENTIONS),
                ("docs/style.md", "More: `@deep/more.md`\n"),
                ("docs/deep/more.md", "@../../other.md"),
                ("other.md", "The end."),
                ("docs/agents.md", "Linked."),
                ("handbook/web.md", "Linked through a folder."),
                ("tools/skills/a/SKILL.md", "A skill."),
                ("unused.md", "@src/main.rs"),
                ("src/main.rs", "fn main() {}"),
            ],
        );
        let head = shop.link(
            &shop.module(&files, "libs/shared"),
            &[
                ("AGENTS.md", "docs/agents.md"),
                ("docs/book", "../handbook"),
                ("web/AGENTS.md", "../docs/book/web.md"),
                (".claude/skills", "../tools/skills"),
                (".codebutler/coder.md", "../../outside.md"),
                (".codebutler/pm.md", "/etc/passwd"),
                (".codebutler/loop.md", "loop.md"),
                ("GEMINI.md", "libs/shared/gemini.md"),
            ],
        );
        let leads = leads(&shop, &head).await;
        for (path, by) in [
            ("docs/style.md", "CLAUDE.md"),
            ("docs/deep/more.md", "CLAUDE.md"),
            ("other.md", "CLAUDE.md"),
            ("docs/agents.md", "AGENTS.md"),
            ("docs/book", "web/AGENTS.md"),
            ("handbook/web.md", "web/AGENTS.md"),
            ("tools/skills/a/SKILL.md", ".claude/skills"),
            ("tools/skills/new/SKILL.md", ".claude/skills"),
            ("libs/shared", "GEMINI.md"),
        ] {
            assert_eq!(leads.leading_to(path), Some(by), "{path}");
        }
        for path in ["src/main.rs", "unused.md", "outside.md", "docs/gone.md", "handbook", "docs"] {
            assert_eq!(leads.leading_to(path), None, "{path}");
        }
        assert!(!leads.is_cut, "nothing is left out");
    }

    #[tokio::test]
    async fn what_is_too_much_to_follow_is_said() {
        let shop = TestRepository::new();
        let long = "x".repeat(usize::try_from(MAX_FILE).unwrap() + 1);
        let large = shop
            .commit(&[], &[("AGENTS.md", &long), ("CLAUDE.md", "@docs/a.md"), ("docs/a.md", "")]);
        let found = leads(&shop, &large).await;
        assert!(found.is_cut && found.leading_to("docs/a.md") == Some("CLAUDE.md"));
        let chain: Vec<_> =
            (0..9).map(|n| (format!("docs/{n}.md"), format!("@{}.md", n + 1))).collect();
        let mut files: Vec<_> = chain.iter().map(|(path, text)| (&**path, &**text)).collect();
        files.push(("AGENTS.md", "@docs/0.md"));
        let found = leads(&shop, &shop.commit(&[], &files)).await;
        assert!(found.is_cut && found.leading_to("docs/4.md").is_some());
    }
}
